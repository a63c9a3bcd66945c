"""Reads numbers of metrics, of this process or of the text of a scrape."""

from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families


class Grown:
    """How much metrics grew since the block began."""

    def __init__(self) -> None:
        self._before = _all()

    def by(self, name: str, **labels: str) -> float:
        key = (name, tuple(sorted(labels.items())))
        return _all().get(key, 0.0) - self._before.get(key, 0.0)


def _all() -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    from dalston_queue.metrics.declare import DECLARED

    found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for collector in list(REGISTRY._collector_to_names):
        if type(collector).__name__ == "QueueCollector":
            continue
        for family in collector.collect():
            if any(family.name in name for name in DECLARED):
                found |= {(each.name, tuple(sorted(each.labels.items()))): each.value for each in family.samples}
    return found


def samples(text: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """The samples of a scrape, by name and labels."""
    found: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for each in family.samples:
            found.setdefault(each.name, {})[tuple(sorted(each.labels.items()))] = each.value
    return found
