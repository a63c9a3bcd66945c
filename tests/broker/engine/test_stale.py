"""An engine's own stale claim when no orchestrator leads: ten minutes without renewal and without a beat."""

from dalston_queue.broker import Broker, EventReader
from dalston_queue.broker.engine.stale import StaleClaim, StaleRules
from dalston_queue.broker.protocol.types import Cause, EventKind, Role
from tests.broker.conftest import MakeEngine, events_of, message
from tests.support import wait_until


def test_only_an_owner_that_did_not_beat_over_the_whole_threshold_loses_its_task(
    broker: Broker, engine: MakeEngine
) -> None:
    broker.append([message("a")])
    engine("hangs").claim()
    stale = StaleClaim(broker, "me", ["echo"], StaleRules(threshold_ms=100))
    wait_until(lambda: broker.pending("echo", min_idle_ms=100).total == 1, what="the entry to be idle for 100 ms")
    assert stale.reclaim(now=1000.0) == 0, "the first poll"
    assert stale.reclaim(now=1000.05) == 0, "not long enough by our own clock"
    assert stale.reclaim(now=1000.2) == 1
    assert broker.records("echo", ["a"])["a"].losses == 1


def test_nothing_is_reclaimed_while_a_judge_leads(broker: Broker, engine: MakeEngine) -> None:
    broker.append([message("a")])
    engine("hangs").claim()
    broker.lease(Role.ORCHESTRATOR, "judge").acquire()
    stale = StaleClaim(broker, "me", ["echo"], StaleRules(threshold_ms=0))
    assert stale.reclaim(now=1.0) + stale.reclaim(now=100.0) == 0


def test_a_task_that_used_up_its_budget_of_lost_nodes_is_exhausted(
    broker: Broker, engine: MakeEngine, reader: EventReader
) -> None:
    broker.append([message("a")])
    engine("hangs").claim()
    stale = StaleClaim(broker, "me", ["echo"], StaleRules(threshold_ms=0, max_losses=1))
    assert stale.reclaim(now=1.0) + stale.reclaim(now=100.0) == 1
    assert [event.kind for event in events_of(reader)][-1] is EventKind.TASK_EXHAUSTED


def test_an_engine_recovers_by_its_own_rules(broker: Broker, engine: MakeEngine, reader: EventReader) -> None:
    broker.append([message("a")])
    engine("dead").claim()
    broker.registry.condemn(broker.registry.beat_counters()["dead"], Cause.ENGINE_LOST)
    assert engine("alive", stale=StaleRules(max_deliveries=1)).reclaim() == 1
    assert [event.kind for event in events_of(reader)][-1] is EventKind.TASK_EXHAUSTED
