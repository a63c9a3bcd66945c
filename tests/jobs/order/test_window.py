"""Windows: short while tasks take seconds, longer for more slots, and for engines that start many at once."""

from dalston_queue.broker.nodes.registry import EngineInfo
from dalston_queue.broker.protocol.types import EngineState
from dalston_queue.jobs.order.window import Windows, capacity


def engine(name: str, slots: int, *capabilities: str, state: EngineState = EngineState.READY) -> EngineInfo:
    return EngineInfo(
        engine_id=name, state=state, queues=("transcribe",), capabilities=capabilities, capacity=slots, info={}
    )


def test_a_window_holds_two_tasks_per_slot_and_never_fewer_than_the_setting() -> None:
    assert Windows(4, (engine("a", 1),)).size(("transcribe", "medium")) == 4
    assert Windows(4, (engine("a", 8), engine("b", 8))).size(("transcribe", "medium")) == 32
    assert Windows(4).size(("transcribe", "medium")) == 4


def test_only_ready_engines_that_can_run_the_lane_count() -> None:
    engines = [engine("a", 1), engine("b", 2, "gpu"), engine("c", 4, "gpu", "large"), engine("d", 8, "gpu")]
    engines[3] = engine("d", 8, "gpu", state=EngineState.DRAINING)
    assert capacity("transcribe", engines) == 7
    assert capacity("transcribe@gpu", engines) == 6
    assert capacity("transcribe@gpu+large", engines) == 4
    assert capacity("other", engines) == 0


def test_a_window_grows_with_what_engines_have_just_started() -> None:
    windows = Windows(4, (engine("a", 1),), {("transcribe", "medium"): 50})
    assert windows.size(("transcribe", "medium")) == 200
    assert windows.size(("transcribe", "low")) == 4
