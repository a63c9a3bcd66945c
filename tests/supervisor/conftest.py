"""Fixtures of the supervisor's tests: a stub of NVIDIA's library, compiled on the spot."""

import os
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


class NvmlStub:
    """The stub's state, changed by writing its file."""

    def __init__(self, library: Path, state: Path) -> None:
        self.library = library
        self.state = state
        self.say()

    @property
    def env(self) -> dict[str, str]:
        return {"LD_LIBRARY_PATH": str(self.library.parent), "NVML_STUB_STATE": str(self.state)}

    def say(self, *lines: str) -> None:
        new = self.state.with_suffix(".new")
        new.write_text("".join(f"{line}\n" for line in lines))
        new.replace(self.state)


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    compiler = os.environ.get("CC", "cc")
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, HERE / "nvml_stub.c"], check=True)
    return library


@pytest.fixture
def nvml(nvml_library: Path, tmp_path: Path) -> NvmlStub:
    return NvmlStub(nvml_library, tmp_path / "nvml.state")
