"""An engine's own stale claim when no orchestrator leads: ten minutes without renewal and without a beat."""

from dalston_queue.broker import Broker
from dalston_queue.broker.stale import StaleClaim
from dalston_queue.broker.types import Role
from tests.broker.conftest import MakeEngine, message
from tests.support import wait_until


def test_only_an_owner_that_did_not_beat_over_the_whole_threshold_loses_its_task(
    broker: Broker, engine: MakeEngine
) -> None:
    broker.append([message("a")])
    engine("silent").claim()
    stale = StaleClaim(broker, "me", ["echo"], threshold_ms=100)
    wait_until(lambda: broker.pending("echo", min_idle_ms=100).total == 1, what="the entry to be idle for 100 ms")
    assert stale.take_back(now=1000.0) == 0, "first look"
    assert stale.take_back(now=1000.05) == 0, "not long enough by our own clock"
    assert stale.take_back(now=1000.2) == 1
    assert broker.records("echo", ["a"])["a"].losses == 1


def test_nothing_is_taken_while_a_judge_leads(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a")])
    engine("silent").claim()
    broker.lease(Role.ORCHESTRATOR, "judge").acquire()
    stale = StaleClaim(broker, "me", ["echo"], threshold_ms=0)
    assert stale.take_back(now=1.0) + stale.take_back(now=100.0) == 0
