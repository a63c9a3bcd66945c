"""manage.py fetch_model: lists the models of a node's engines, fetches one with a bar, and says what is wrong."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from engines.sdk.models import Model
from tests.conftest import ROOT
from tests.engines.models.registry import NPM, Registry
from tests.engines.models.test_fetching import archives, model, registry

__all__ = ["archives", "model", "registry"]


@pytest.fixture
def engines(registry: Registry, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an engine that has a model; its packages are in the registry of the test."""
    folder = tmp_path / "engines" / "hear"
    folder.mkdir(parents=True)
    (folder / "engine.yaml").write_text("{id: hear, stage: hear, command: [python, engine.py]}")
    (folder / "models.yaml").write_bytes(msgspec.yaml.encode({"models": {"tiny": model}}))
    monkeypatch.setenv("DALSTON_MODELS_DIR", str(tmp_path / "models"))
    monkeypatch.setenv("DALSTON_DEV", "1")
    for name in ("DATABASE_URL", "REDIS_URL"):  # a node fetches without any server
        monkeypatch.delenv(name, raising=False)
    return folder.parent


def command(engines: Path, *arguments: str) -> list[str]:
    return [sys.executable, "manage.py", "fetch_model", *arguments, "--engines", str(engines)]


def run(engines: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command(engines, *arguments), cwd=ROOT, capture_output=True, text=True, check=False)


def test_a_model_is_listed_fetched_and_listed_as_fetched(engines: Path, tmp_path: Path) -> None:
    assert "not fetched, 3 MB" in run(engines).stdout
    done = run(engines, "tiny")
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.splitlines()[-1].removeprefix("tiny is in "))
    assert folder.parent == tmp_path / "models" and (folder / "encoder.onnx").stat().st_size == 3_000_000
    assert "fetched  " in run(engines).stdout and "not fetched" not in run(engines).stdout


def test_on_a_terminal_it_shows_a_bar(engines: Path) -> None:
    controller, terminal = pty.openpty()
    with subprocess.Popen(command(engines, "tiny"), cwd=ROOT, stdout=terminal, stderr=terminal) as process:
        os.close(terminal)
        shown = b""
        try:
            while part := os.read(controller, 65536):
                shown += part
        except OSError:
            pass  # the terminal is closed
        assert process.wait(40) == 0
    os.close(controller)
    assert b"[" + b"#" * 30 + b"] tiny 100%" in shown


def test_an_unknown_model_and_a_registry_that_is_away_are_clear_errors(
    engines: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = run(engines, "large")
    assert unknown.returncode != 0 and "no engine of this node has a model 'large'; there are: tiny" in unknown.stderr
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:1")
    away = run(engines, "tiny")
    assert away.returncode != 0 and f"{NPM}@1.0.0 can't be fetched" in away.stderr
    assert "Traceback" not in unknown.stderr + away.stderr
