"""docs/orchestrator.md names every duty and every metric."""

import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from dalston_queue.broker import Broker
from dalston_queue.jobs.webhooks import sender
from dalston_queue.metrics import QueueCollector
from dalston_queue.orchestrator import batch, scheduler
from dalston_queue.orchestrator.duties.run import DUTIES

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "orchestrator.md").read_text()


def listed(title: str) -> set[str]:
    [section] = re.findall(rf"^## {title}$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return set(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE))


def test_every_duty_is_on_the_page() -> None:
    assert listed("Duties") == {"recovery", "webhook sender"} | {spec.name for spec in DUTIES}


@pytest.mark.django_db
def test_every_metric_is_on_the_page(broker: Broker) -> None:
    registry = CollectorRegistry()
    registry.register(QueueCollector())
    for module in (batch, scheduler, sender):
        for value in vars(module).values():
            if isinstance(value, MetricWrapperBase):
                registry.register(value)
    names = {family.name + ("_total" if family.type == "counter" else "") for family in registry.collect()}
    assert listed("Metrics") == names
