"""Leadership: renewed and released by compare-and-set, trusted for less time than the lease lasts."""

from dalston_queue.broker import Broker
from dalston_queue.broker.protocol.types import Role
from tests.support import wait_until


def test_one_leads_and_the_other_waits(broker: Broker) -> None:
    one, two = broker.lease(Role.ORCHESTRATOR, "one"), broker.lease(Role.ORCHESTRATOR, "two")
    assert one.acquire(term=1) and one.held
    assert not two.acquire(term=2) and not two.held
    leader = two.leader()
    assert leader is not None and (leader.token, leader.term) == ("one", 1)
    assert broker.home.command("PTTL", broker.home.keys.leader(Role.ORCHESTRATOR)) > 20_000
    assert not two.release() and one.renew()
    assert one.release() and not one.held
    assert two.acquire(term=2)


def test_acquiring_again_is_renewing(broker: Broker) -> None:
    lease = broker.lease(Role.ORCHESTRATOR, "one")
    assert lease.acquire(term=1) and lease.acquire(term=1)


def test_a_short_lease_can_be_led_too(broker: Broker) -> None:
    lease = broker.lease(Role.ORCHESTRATOR, "one", ttl_s=1.0)
    assert lease.acquire(term=1) and lease.held


def test_the_key_of_the_orchestrators_lease(broker: Broker) -> None:
    lease = broker.lease(Role.ORCHESTRATOR, "one")
    assert lease.acquire(term=1)
    key = broker.home.keys.leader(Role.ORCHESTRATOR)
    assert key == f"{broker.home.keys.prefix}:orchestrator:leader" and broker.home.command("EXISTS", key) == 1
    assert lease.release()


def test_each_role_has_its_own_leader(broker: Broker) -> None:
    assert broker.lease(Role.ORCHESTRATOR, "one").acquire()
    assert broker.lease(Role.HOUSEKEEPING, "two").acquire()


def test_a_stalled_holder_neither_renews_nor_releases_what_another_took(broker: Broker) -> None:
    stalled = broker.lease(Role.ORCHESTRATOR, "stalled", ttl_s=0.05)
    heir = broker.lease(Role.ORCHESTRATOR, "heir")
    assert stalled.acquire(term=1)
    wait_until(lambda: heir.acquire(term=2), what="the lease to run out")
    assert not stalled.held, "it stops trusting the lease before Redis does"
    assert not stalled.renew() and not stalled.release()
    leader = heir.leader()
    assert leader is not None and leader.term == 2


def test_an_old_term_of_the_same_process_is_over(broker: Broker) -> None:
    first, second = broker.lease(Role.ORCHESTRATOR, "same"), broker.lease(Role.ORCHESTRATOR, "same")
    first.acquire(term=1)
    second.acquire(term=2)
    assert not first.renew() and not first.release() and second.renew()
