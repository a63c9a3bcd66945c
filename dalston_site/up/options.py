"""The command line of `./dev up`."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dalston_site.version import installed_version

ROOT = Path(__file__).resolve().parent.parent.parent

DESCRIPTION = """\
Start Dalston on this machine: Postgres, Valkey, web, orchestrator, housekeeping, and one GPU node with its engines.
DATABASE_URL and REDIS_URL, if they are set, are used instead of private servers. Ctrl-C stops everything."""


@dataclass(frozen=True)
class Options:
    port: int
    data: Path
    orchestrators: int
    nodes: int
    lan: bool

    @property
    def bind(self) -> str:
        return "0.0.0.0" if self.lan else "127.0.0.1"  # noqa: S104 (only when asked for)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


def parse(argv: Sequence[str]) -> Options:
    parser = argparse.ArgumentParser(prog="./dev up", description=DESCRIPTION, formatter_class=_Formatter)
    parser.add_argument("--version", action="version", version=f"dalston {installed_version()}")
    parser.add_argument(
        "--port", type=_between(1, 65535), default=8000, metavar="N", help="port of the dashboard and the API"
    )
    parser.add_argument(
        "--data", type=Path, default=ROOT / "var", metavar="DIR", help="where everything is kept (default: var)"
    )
    parser.add_argument("--orchestrators", type=_between(1, 32), default=1, metavar="N", help="how many orchestrators")
    parser.add_argument(
        "--nodes", type=_between(0, 32), default=1, metavar="N", help="how many nodes, each with all engines"
    )
    parser.add_argument("--lan", action="store_true", help="listen on every network interface, not only on loopback")
    parsed = parser.parse_args(argv)
    return Options(parsed.port, parsed.data.absolute(), parsed.orchestrators, parsed.nodes, parsed.lan)


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Shows numeric defaults only."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        shown = f" (default: {action.default})" if isinstance(action.default, int) and action.nargs is None else ""
        return f"{action.help}{shown}"


def _between(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not text.isdecimal() or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {low} to {high}")
        return int(text)

    return read
