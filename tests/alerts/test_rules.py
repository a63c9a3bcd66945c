"""The rules of Prometheus: made from the table, valid, and each fires in one case and is silent in another."""

import subprocess
from pathlib import Path

import pytest
import yaml

from dalston_queue.alerts.__main__ import files
from dalston_queue.alerts.table import ALERTS
from dalston_site.declared import DECLARED
from tests.alerts.cases import CASES, Series
from tests.conftest import ROOT
from tests.support import need_tool

RULES = ROOT / "deploy" / "prometheus" / "alerts.yml"


def test_rules_and_pages_are_made_from_the_table() -> None:
    made = files()
    written = {path: (ROOT / path).read_text() for path in made}
    assert written == made, "run: python -m dalston_queue.alerts"
    pages = {f"docs/runbooks/{page.name}" for page in (ROOT / "docs" / "runbooks").glob("*.md")}
    assert pages == {path for path in made if path.startswith("docs/runbooks/")}


def test_each_alert_has_its_two_cases_and_its_settings() -> None:
    assert CASES.keys() == {alert.name for alert in ALERTS}
    used = {each for alert in ALERTS for each in (alert.threshold, alert.for_s) if isinstance(each, str)}
    assert used == {name for name in DECLARED if name.startswith("DALSTON_ALERT_")}


def promtool(*arguments: str) -> str:
    done = subprocess.run([need_tool("promtool"), *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_accepts_the_rules() -> None:
    assert f"{len(ALERTS)} rules found" in promtool("check", "rules", str(RULES))


def test_promtool_accepts_the_example_configuration(tmp_path: Path) -> None:
    text = (RULES.parent / "prometheus.yml").read_text()
    (tmp_path / "prometheus.yml").write_text(text)
    (tmp_path / "alerts.yml").write_text(RULES.read_text())
    (tmp_path / "dalston-token").write_text("x" * 20)
    promtool("check", "config", str(tmp_path / "prometheus.yml"))


def _test_of(series: Series, alert: str, at: str, firing: bool) -> dict[str, object]:
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)',
                "eval_time": at,
                "exp_samples": [{"labels": "{}", "value": int(firing)}],
            }
        ],
    }


@pytest.mark.parametrize("firing", [True, False], ids=["fires", "silent"])
def test_each_rule_fires_in_its_one_case_and_is_silent_in_the_other(tmp_path: Path, firing: bool) -> None:
    tests = [_test_of(case.fires if firing else case.silent, name, case.at, firing) for name, case in CASES.items()]
    file = tmp_path / "cases.yml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
    promtool("test", "rules", str(file))


def test_a_summary_is_a_sentence_with_its_subject_and_value(tmp_path: Path) -> None:
    case = CASES["DalstonQueueDeep"]
    expected = {
        "exp_labels": {"severity": "warning", "stage": "echo", "priority": "medium"},
        "exp_annotations": {
            "summary": "Queue echo medium: tasks wait (5.001k).",
            "runbook": "docs/runbooks/queue-deep.md",
        },
    }
    series = [{"series": name, "values": values} for name, values in case.fires.items()]
    rule = {"eval_time": "5m", "alertname": "DalstonQueueDeep", "exp_alerts": [expected]}
    file = tmp_path / "case.yml"
    test = {"interval": "1m", "input_series": series, "alert_rule_test": [rule]}
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [test]}))
    promtool("test", "rules", str(file))
