"""The lease of a role: one holder, a growing term, takeover after a kill and after a clean stop."""

import time

import pytest
from pytest_django import Settings

from dalston_queue.broker import Broker
from dalston_queue.broker.protocol.types import Role
from dalston_queue.models import Leadership as LeadershipRow
from dalston_queue.orchestrator.leadership import Leadership
from tests.support import wait_until

pytestmark = pytest.mark.django_db


def test_one_leads_and_the_other_waits_until_it_resigns(broker: Broker) -> None:
    first, second = Leadership(Role.ORCHESTRATOR, "first"), Leadership(Role.ORCHESTRATOR, "second")
    assert first.keep()
    assert first.keep()
    assert not second.keep()
    first.resign()
    assert second.keep()
    assert not first.held
    row = LeadershipRow.objects.get(role="orchestrator")
    assert (row.term, row.holder) == (2, "second")
    second.resign()


def test_after_a_kill_the_next_one_leads_when_the_lease_has_run_out(broker: Broker, settings: Settings) -> None:
    settings.DALSTON_LEADER_TTL_S = 2.5
    Leadership(Role.ORCHESTRATOR, "killed").keep()
    next_one = Leadership(Role.ORCHESTRATOR, "next")
    assert not next_one.keep()
    started = time.monotonic()
    wait_until(next_one.keep, what="the next one leads")
    assert time.monotonic() - started < 2 * settings.DALSTON_LEADER_TTL_S
    next_one.resign()


def test_the_roles_are_apart(broker: Broker) -> None:
    orchestrator, housekeeping = Leadership(Role.ORCHESTRATOR, "a"), Leadership(Role.HOUSEKEEPING, "b")
    assert orchestrator.keep()
    assert housekeeping.keep()
    orchestrator.resign()
    housekeeping.resign()


def test_the_polls_of_a_standby_use_no_terms(broker: Broker) -> None:
    leader, standby = Leadership(Role.ORCHESTRATOR, "leader"), Leadership(Role.ORCHESTRATOR, "standby")
    leader.keep()
    for _ in range(5):
        standby.keep()
    assert LeadershipRow.objects.get(role="orchestrator").term == 1
    leader.resign()


def test_a_leader_whose_lease_was_forgotten_learns_it_and_takes_a_new_term(broker: Broker) -> None:
    leader, other = Leadership(Role.ORCHESTRATOR, "leader"), Leadership(Role.ORCHESTRATOR, "other")
    leader.keep()
    broker.lease(Role.ORCHESTRATOR, "leader").release()
    broker.home.command("DEL", broker.home.keys.leader(Role.ORCHESTRATOR))
    assert other.keep()
    assert not leader.keep()
    other.resign()
