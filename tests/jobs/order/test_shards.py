"""The order on several Redis servers: a task that changes its priority changes its server, and is in one at a time."""

from datetime import timedelta

import pytest
import redis
from pytest_django import Settings

from dalston_queue.broker import Broker
from dalston_queue.jobs.order.ageing import promote_aged
from dalston_queue.jobs.order.depth import counted, depths
from dalston_queue.jobs.order.refill import refill
from dalston_queue.models import Limit, Task
from dalston_queue.redis import get_broker
from tests.jobs import make
from tests.jobs.make import NOW
from tests.orchestrator.support import Steps, engine, run_to_the_end

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.keeps_keys]


@pytest.fixture
def shards(redis_url: str, prefix: str, settings: Settings) -> Broker:
    """High priority has a server of its own: another database of the same one."""
    url = redis.connection.parse_url(redis_url)
    settings.DALSTON_REDIS_URLS = f"*/high={redis_url.rsplit('/', 1)[0]}/{int(url.get('db', 0)) + 1}"
    return get_broker()


def where(broker: Broker) -> list[int]:
    """How many entries wait on each server, the one of REDIS_URL first."""
    return [sum(lane.lag for lane in stats.lanes if lane.shard == shard.index) for shard in broker.shards
            for stats in broker.snapshot(["echo"]).queues]  # fmt: skip


def test_aged_tasks_move_to_the_server_of_their_new_priority(shards: Broker) -> None:
    for _ in range(3):
        make.claim(make.single(priority="medium").job)
    refill(None, NOW)
    assert where(shards) == [3, 0]
    promote_aged(NOW + timedelta(minutes=20))
    assert where(shards) == [0, 3]
    with engine(shards, "echo") as consumer:
        run_to_the_end(Steps(shards), consumer)
    assert list(Task.objects.values_list("status", "attempt")) == [("completed", 1)] * 3


def test_high_priority_takes_what_a_limit_allows_from_another_server(shards: Broker) -> None:
    Limit.objects.create(project=make.project(), max_in_flight=3)
    for priority in ("low", "high"):
        for _ in range(3):
            make.claim(make.single(priority=priority).job)
        refill(None, NOW)
    assert where(shards) == [0, 3]
    assert set(depths()) == set(counted())
    with engine(shards, "echo") as consumer:
        run_to_the_end(Steps(shards), consumer)
    assert list(Task.objects.values_list("status", "attempt")) == [("completed", 1)] * 6
