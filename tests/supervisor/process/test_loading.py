"""What an engine tells while it loads: how far it is, and then what it can run."""

from pathlib import Path

from dalston_queue.broker.protocol.types import EngineState
from tests.supervisor.node import Node
from tests.support import wait_until


def test_a_loading_engine_shows_how_far_it_is_and_then_what_it_can_run(node: Node, tmp_path: Path) -> None:
    fetched = tmp_path / "fetched"
    node.engine(capabilities=["small", "large"], env={"FIXTURE_LOAD": "fetch", "FIXTURE_FILE": str(fetched)})
    node.start()
    wait_until(lambda: [e for e in node.engines() if e.info["why"] == "fetching the model, 40 %"], what="its progress")
    [loading] = node.wait_state(EngineState.LOADING)
    assert loading.capabilities == ("small", "large")
    fetched.touch()
    [ready] = node.ready()
    assert (ready.capabilities, ready.info["why"]) == (("small",), "ready, without large")
