from collections.abc import Iterator
from pathlib import Path

import pytest

from dalston_queue.broker import Broker
from dalston_queue.broker.protocol.types import EventKind
from tests.engines.workbench import QUEUE, Bench


@pytest.fixture
def bench(broker: Broker, tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(broker, tmp_path)
    yield bench
    bench.stop(hurry=True)
    bench.events(EventKind.TASK_COMPLETED)
    broker.reset_queue(QUEUE)
