"""Import rules: the contracts hold, and an engine needs no Django."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

SHARED_WITH_ENGINES = {
    "dalston_queue.addresses",
    "dalston_queue.defaults",
    "dalston_queue.pinned",
    "dalston_queue.transcription.speech_models",
}
"""What an engine may import of the server: which addresses may be downloaded from, shared figures, names of models."""
MANIFESTS = sorted(ROOT.glob("engines/*/engine.yaml"))


@pytest.mark.parametrize(
    "module",
    [
        *("engines.sdk", "engines.sdk.manifest", "dalston_queue.broker", *sorted(SHARED_WITH_ENGINES)),
        *(f"engines.{manifest.parent.name}.engine" for manifest in MANIFESTS),
    ],
)
def test_modules_for_engines_load_no_django(module: str) -> None:
    """In a fresh interpreter, because this one has loaded everything."""
    program = (
        f"import sys, {module}; print([name for name in sys.modules if name.split('.')[0] in {{'django', 'psycopg'}}])"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def imports_of(folder: Path, *besides: str) -> set[str]:
    """Every module named in an import statement below this folder."""
    found: set[str] = set()
    for path in folder.rglob("*.py"):
        if path.name in besides:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [alias.name for alias in node.names]
                bare = node.module in {"dalston_queue", "engines"}
                found |= {f"{node.module}.{name}" for name in names} if bare else {node.module or ""}
    return found


def is_below(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.parent.name)
def test_an_engine_imports_only_the_sdk(manifest: Path) -> None:
    """Engines are programs, not packages, so import-linter does not see them.

    Beside the SDK: its own modules, engines.audio, and the few modules of the server that load nothing."""
    allowed = ("engines.sdk", "engines.audio", f"engines.{manifest.parent.name}", *SHARED_WITH_ENGINES)
    ours = ("dalston_site", "dalston_queue", "supervisor", "engines", "django")
    imported = [name for name in imports_of(manifest.parent) if is_below(name, *ours)]
    assert imported and [name for name in imported if not is_below(name, *allowed)] == []


def test_the_supervisor_never_touches_the_database() -> None:
    """import-linter knows Django only as a whole. `manage.py why` is no part of it: on a server it asks about tasks."""
    imported = imports_of(ROOT / "supervisor", "why.py")
    assert [name for name in imported if is_below(name, "django.db", "django.contrib")] == []


def test_the_import_contracts_hold() -> None:
    """The contracts are in pyproject.toml, one for each sentence of the rules."""
    program = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    environment = {**os.environ, "NO_COLOR": "1"}
    done = subprocess.run(
        [sys.executable, "-c", program, "--no-cache"],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert " 0 broken." in done.stdout
