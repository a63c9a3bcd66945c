"""docs/operate/metrics.md and the Grafana board are those of the declarations, and each metric is set by its module."""

import json
import re

import pytest

from dalston_queue.metrics import nodes, processes, queues, tasks
from dalston_queue.metrics.declare import DECLARED, Family
from dalston_queue.metrics.page import board_text, docs_page, queries
from tests.conftest import ROOT

HOW = "run: python -m dalston_queue.metrics"


def test_the_page_is_made_from_the_declarations() -> None:
    assert (ROOT / "docs" / "operate" / "metrics.md").read_text() == docs_page(), HOW


def test_the_board_is_made_from_the_declarations() -> None:
    text = (ROOT / "deploy" / "grafana" / "dalston.json").read_text()
    assert text == board_text(), HOW
    panels = [panel for panel in json.loads(text)["panels"] if panel["type"] != "row"]
    shown = " ".join(target["expr"] for panel in panels for target in panel["targets"])
    assert [name for name in DECLARED if name not in shown] == []
    assert len({panel["id"] for panel in json.loads(text)["panels"]}) == len(json.loads(text)["panels"])


def _variables() -> dict[str, tuple[str, str]]:
    """By metric the module and the variable that holds it."""
    found = {}
    for module in (nodes, processes, queues, tasks):
        for variable, value in vars(module).items():
            each = value if isinstance(value, dict) and variable == "GPU" else {variable: value}
            for metric in each.values():
                name = metric.metric.name if isinstance(metric, Family) else getattr(metric, "_name", None)
                kind = "" if isinstance(metric, Family) or name in DECLARED else "_total"
                if name and f"{name}{kind}" in DECLARED:
                    found[f"{name}{kind}"] = (module.__name__.rpartition(".")[2], variable)
    return found


@pytest.mark.parametrize("name", DECLARED)
def test_each_metric_is_set_where_its_declaration_says(name: str) -> None:
    module, variable = _variables()[name]
    for path in DECLARED[name].set_in.split(", "):
        file = ROOT / path if path.startswith("supervisor/") else ROOT / "dalston_queue" / path
        code = file.read_text()
        if path == "jobs/lifecycle/status.py":  # it hands its moves to the module that declares
            assert "metrics.count" in code
            code = (ROOT / "dalston_queue" / "metrics" / "tasks.py").read_text()
            assert len(re.findall(rf"\b{variable}\b", code)) > 1, (name, variable)
        assert re.search(rf"\b{variable}\b", code), f"{path} does not set {module}.{variable}"


def test_names_have_our_prefix_or_that_of_dcgm_and_counters_end_in_total() -> None:
    for name, metric in DECLARED.items():
        assert re.fullmatch(r"dalston_[a-z0-9_]+|DCGM_FI_DEV_[A-Z_]+", name), name
        # Gauges of the first designs are called _total, too.
        assert metric.kind != "counter" or name.endswith("_total"), name
        assert metric.kind != "histogram" or name.endswith("_seconds"), name


def test_every_query_of_the_board_asks_for_declared_metrics_only() -> None:
    known = set(DECLARED) | {f"{name}_bucket" for name, metric in DECLARED.items() if metric.kind == "histogram"}
    for panel in json.loads(board_text())["panels"]:
        for target in panel.get("targets", ()):
            assert set(re.findall(r"\b(?:dalston|DCGM)_\w+", target["expr"])) - known == set(), target


def test_each_metric_has_a_query_on_the_board() -> None:
    for metric in DECLARED.values():
        assert all(metric.name in expr for expr, _ in queries(metric))
