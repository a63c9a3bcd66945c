"""Fixtures of the supervisor's tests: nodes, and a stub of NVIDIA's library, compiled by the first test."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dalston_queue.broker import Broker
from tests.supervisor.node import Node
from tests.support import Spawned, need_tool

HERE = Path(__file__).resolve().parent


class NvmlStub:
    """The stub's state, changed by writing its file."""

    def __init__(self, library: Path, state: Path) -> None:
        self.library = library
        self.state = state
        self.set()

    @property
    def env(self) -> dict[str, str]:
        return {"LD_LIBRARY_PATH": str(self.library.parent), "NVML_STUB_STATE": str(self.state)}

    def set(self, *lines: str) -> None:
        new = self.state.with_suffix(".new")
        new.write_text("".join(f"{line}\n" for line in lines))
        new.replace(self.state)


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("nvml") / "libnvidia-ml.so.1"
    compiler = need_tool(os.environ.get("CC", "cc"))
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, HERE / "nvml_stub.c"], check=True)
    return library


@pytest.fixture
def nvml(nvml_library: Path, tmp_path: Path) -> NvmlStub:
    return NvmlStub(nvml_library, tmp_path / "nvml.state")


@pytest.fixture
def make_node(
    broker: Broker, spawn: Callable[..., Spawned], process_env: dict[str, str], tmp_path: Path
) -> Iterator[Callable[..., Node]]:
    """Nodes of this test; all are stopped and leave no key."""
    made: list[Node] = []

    def make(name: str = "node-a", **env: str) -> Node:
        made.append(Node(broker, spawn, {**process_env, "DALSTON_HEARTBEAT_S": "0.2", **env}, tmp_path, name))
        return made[-1]

    yield make
    for node in made:
        node.clean()


@pytest.fixture
def node(make_node: Callable[..., Node]) -> Node:
    return make_node()
