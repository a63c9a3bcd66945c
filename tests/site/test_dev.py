"""The shell script `./dev`, with real virtual environments and a tiny project."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support import Spawned

pytestmark = pytest.mark.timeout(600)
INSTALL_S = 200  # making a venv takes seconds

# A build backend in the tree: an editable install is one line in a .pth file, and needs nothing from an index.
BACKEND = """
import base64, hashlib, zipfile
from pathlib import Path

def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    files = {
        "tiny.pth": str(Path.cwd()),
        "tiny-1.dist-info/METADATA": "Metadata-Version: 2.1\\nName: tiny\\nVersion: 1\\n",
        "tiny-1.dist-info/WHEEL": "Wheel-Version: 1.0\\nGenerator: tiny\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
    }
    files["tiny-1.dist-info/RECORD"] = "".join(f"{name},,\\n" for name in [*files, "tiny-1.dist-info/RECORD"])
    with zipfile.ZipFile(Path(wheel_directory, "tiny-1-py3-none-any.whl"), "w") as wheel:
        for name, content in files.items():
            wheel.writestr(name, content)
    return "tiny-1-py3-none-any.whl"

def build_wheel(*args):
    raise NotImplementedError("only editable")
"""
PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "tiny"
version = "1"
"""


class Project:
    """A folder with our `dev`, a project without dependencies, and a PATH that holds little."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        self.bin.mkdir(parents=True)
        shutil.copy(ROOT / "dev", folder)
        for root, name in ((folder, "tiny"), (folder / "client", "tiny_client")):
            root.mkdir(exist_ok=True)
            (root / "pyproject.toml").write_text(PYPROJECT.replace("tiny", name))
            (root / "backend.py").write_text(BACKEND.replace("tiny", name))
        (folder / "requirements.lock").write_text("")
        (folder / "requirements-up.lock").write_text("# without what tests need\n")
        (folder / "bench").mkdir()
        (folder / "bench" / "claim.py").write_text('"""How fast a claim is."""\nprint("measured")\n')
        self.tool("uv", "exit 1")  # fails, so that nothing is downloaded

    def tool(self, name: str, script: str) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def python(self, name: str = "python3") -> None:
        # Not a link: a venv's python would take the test's own venv for its home.
        self.tool(name, f'exec "{Path(sys.base_prefix, "bin", "python3")}" "$@"')

    @property
    def env(self) -> dict[str, str]:
        return {"PATH": f"{self.bin}:/usr/bin:/bin", "HOME": str(self.folder)}

    def dev(self, *arguments: str, path: str | None = None) -> "subprocess.CompletedProcess[str]":
        env = {**self.env, **({"PATH": path} if path else {})}
        return subprocess.run(
            ["/bin/sh", "./dev", *arguments], cwd=self.folder, env=env, capture_output=True, text=True, check=False
        )


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project with a space")


def test_up_installs_no_more_than_it_needs_and_what_is_there_is_enough(project: Project) -> None:
    project.python()
    assert "dev: installing requirements-up.lock" in project.dev("up").stderr
    assert "dev: installing" not in project.dev("up").stderr
    assert "dev: installing requirements.lock" in project.dev("bench", "claim").stderr
    for command in (["up"], ["manage"], ["bench", "claim"]):
        assert "dev: installing" not in project.dev(*command).stderr


def test_it_installs_once_and_again_only_when_the_lock_or_a_project_changes(project: Project) -> None:
    project.python()
    first = project.dev("bench", "claim")
    assert first.stdout == "measured\n", first.stderr
    assert "dev: making .venv with Python 3" in first.stderr
    assert "dev: installed" in first.stderr

    second = project.dev("bench", "claim")
    assert (second.stdout, second.stderr) == ("measured\n", "")

    assert project.dev("bench").stdout == "benchmarks:\n  claim            How fast a claim is.\n"
    unknown = project.dev("bench", "clam")
    assert unknown.returncode == 1
    assert "dev: there is no bench/clam.py" in unknown.stderr

    for changed in ("requirements.lock", "client/pyproject.toml"):
        with (project.folder / changed).open("a") as file:
            file.write("# changed\n")
        third = project.dev("bench", "claim")
        assert "dev: installing requirements.lock" in third.stderr
        assert "making .venv" not in third.stderr
    installed = subprocess.run(
        [project.folder / ".venv" / "bin" / "python", "-c", "import sys; print(*sys.path, sep='\\n')"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert {str(project.folder), str(project.folder / "client")} <= set(installed.stdout.splitlines())


def test_an_interrupted_install_starts_over(project: Project, spawn: Callable[..., Spawned]) -> None:
    project.python()
    interrupted = spawn("/bin/sh", "./dev", "bench", "claim", env=project.env, cwd=project.folder)
    interrupted.wait_for("installing requirements.lock", INSTALL_S)
    os.killpg(interrupted.pid, signal.SIGINT)  # as the terminal does
    interrupted.wait()
    assert not (project.folder / ".venv" / "installed").exists()
    again = project.dev("bench", "claim")
    assert "making .venv" in again.stderr
    assert again.stdout == "measured\n", again.stderr


def test_two_at_once_install_once(project: Project, spawn: Callable[..., Spawned]) -> None:
    project.python()
    both = [spawn("/bin/sh", "./dev", "bench", "claim", env=project.env, cwd=project.folder) for _ in range(2)]
    assert [one.wait(INSTALL_S) for one in both] == [0, 0], [one.output for one in both]
    outputs = "".join(one.output for one in both)
    assert outputs.count("measured") == 2
    assert outputs.count("dev: making .venv") == 1
    assert outputs.count("dev: waiting for another ./dev that is installing") == 1


def test_a_missing_python_gets_one_clear_sentence(project: Project) -> None:
    for tool in ("dirname", "cat", "cmp"):
        found = shutil.which(tool)
        assert found
        (project.bin / tool).symlink_to(found)
    done = project.dev("bench", path=str(project.bin))
    assert done.returncode == 1
    assert done.stderr == (
        "dev: Dalston needs Python 3.11 or newer as python3 or python3.NN on the PATH; found: none.\n"
    )
    project.tool("python3", 'case $1 in --version) echo "Python 3.8.1";; *) exit 1;; esac')
    assert "found: Python 3.8.1." in project.dev("bench", path=str(project.bin)).stderr


def test_help_lists_the_commands_and_needs_no_python(project: Project) -> None:
    done = project.dev("help")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ")] == [
        "up", "test", "check", "bench", "manage", "lock", "build", "version", "help",
    ]  # fmt: skip
    assert project.dev().stdout == done.stdout


def test_an_unknown_command_is_named(project: Project) -> None:
    done = project.dev("start")
    assert done.returncode == 2
    assert done.stderr.startswith("dev: there is no command 'start'\nusage: ./dev COMMAND")


def test_the_script_is_plain_posix() -> None:
    for shell in ("dash", "sh"):
        if path := shutil.which(shell):
            subprocess.run([path, "-n", str(ROOT / "dev")], check=True)
