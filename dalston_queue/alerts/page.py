"""deploy/prometheus/alerts.yml, docs/operate/alerts.md and docs/runbooks/, from the table, with the default thresholds."""

from __future__ import annotations

import json
from collections.abc import Callable

from dalston_queue.alerts.runbooks import RUNBOOKS, Step
from dalston_queue.alerts.table import ALERTS, Alert
from dalston_site.declared import DECLARED

HEAD = """# Alerts

One table in `dalston_queue/alerts/table.py` has each condition once. Prometheus evaluates `deploy/prometheus/alerts.yml`, which is
made from it with the default thresholds; Dalston evaluates the same conditions itself every 15 s, with the thresholds in your
[settings](../settings.md), so that alerts work without a Prometheus. `python -m dalston_queue.alerts` writes the rules, this page and the
runbooks; a test compares them. `python -m dalston_queue.alerts --mine` prints the rules with the thresholds of your settings.

What fires is on the overview, and each alert has a page with its runbook under `/alerts/`. An orchestrator evaluates, and housekeeping
once a minute: a late duty is noticed while housekeeping is dead, and a missing leader while all orchestrators are. When both are dead
only Prometheus and the overview tell. An alert ends when its condition has not held for a minute.

| notification | settings |
|---|---|
| by e-mail, one mail for all that changed | `DALSTON_ALERT_EMAILS`, and the mail server in `DALSTON_EMAIL_HOST` and the settings beside it |
| by a POST of JSON for each | `DALSTON_ALERT_WEBHOOK_URL`; `DALSTON_ALERT_WEBHOOK_TOKEN` is sent as a bearer token. A private address must be in `DALSTON_WEBHOOK_ALLOWED_NETWORKS` |
| not of some alerts | their names in `DALSTON_ALERTS_MUTED`; they stay on the overview |

Each channel is notified at least once that an alert fires, and that it ended. After a failure it is tried again after 30 s, then ever
later up to 15 min, as long as the alert fires and for a day after its end; the other channel is not delayed. An alert that fired and ended
meanwhile is one mail, and two POSTs. The POST has `status` (`firing` or `ended`), `alert`, `severity`, `subject`, `value`, `summary`,
`since`, `ended_at`, `runbook` and an `id` that is the same in both. Sending never delays the evaluation; the duty `notifications` on the
overview says why a channel fails.

| alert | severity | fires | threshold |
|---|---|---|---|
"""

NOTE = "# Made from dalston_queue/alerts/table.py by `python -m dalston_queue.alerts`. Thresholds are the defaults of docs/settings.md.\n"
PAGES = {
    "overview": "Overview",
    "queues": "Queues",
    "queue": "the queue's page",
    "task": "the task's page",
    "nodes": "Nodes",
    "node": "the node's page",
    "dead-letters": "Dead letters",
    "dead-letters-list": "Dead letters, List",
    "limits": "Limits",
}


def default_of(value: str | float) -> float:
    return float(DECLARED[value].default) if isinstance(value, str) else float(value)


Number = Callable[[str | float], float]
"""The number of a threshold: the default, or the setting as it is."""


def rules_text(number: Number = default_of) -> str:
    """YAML, with JSON for the texts."""
    lines = [NOTE + "groups:", "  - name: dalston", "    rules:"]
    for alert in ALERTS:
        held = number(alert.for_s)
        lines += [
            f"      - alert: {alert.name}",
            f"        expr: {json.dumps(expression(alert, number))}",
            *([f"        for: {held:g}s"] if held else []),
            f"        labels: {{severity: {alert.severity}}}",
            "        annotations:",
            f"          summary: {json.dumps(_summary(alert))}",
            f"          runbook: docs/runbooks/{alert.slug}.md",
        ]
    return "\n".join(lines) + "\n"


def expression(alert: Alert, number: Number = default_of) -> str:
    sign = "<" if alert.is_below else ">"
    return f"({alert.promql}) {sign} {number(alert.threshold):g}"


def _summary(alert: Alert) -> str:
    subject = " ".join(f"{{{{ $labels.{label} }}}}" for label in alert.labels)
    shown = "{{ $value | humanizePercentage }}" if alert.percent else "{{ $value | humanize }}"
    return alert.summary.format(subject=subject, value=shown)


def alerts_page() -> str:
    return HEAD + "\n".join(_row(alert) for alert in ALERTS) + "\n"


def _row(alert: Alert) -> str:
    subject = " ".join(f"*{label}*" for label in alert.labels)
    summary = alert.summary.format(subject=subject, value="n").replace("|", "\\|")
    return f"| [{alert.name}](../runbooks/{alert.slug}.md) | {alert.severity} | {summary} | {_limit(alert)} |"


def _limit(alert: Alert) -> str:
    """The default, and the setting that changes it."""
    limit = default_of(alert.threshold)
    words = f"{'below' if alert.is_below else 'above'} {100 * limit:g} %" if alert.percent else ""
    words = words or f"{'below' if alert.is_below else 'above'} {limit:g}"
    held = default_of(alert.for_s)
    names = [f"`{each}`" for each in (alert.threshold, alert.for_s) if isinstance(each, str)]
    return f"{words}{f' for {held:g} s' if held else ''}{': ' if names else ''}{', '.join(names)}"


def runbook_page(alert: Alert) -> str:
    runbook = RUNBOOKS[alert.name]
    return (
        f"# {alert.name}\n\n{alert.severity.capitalize()}. Fires {_limit(alert)}. [All alerts](../operate/alerts.md)\n\n"
        f"## What it means\n\n{runbook.means}\n\n"
        f"## What to check\n\n{_steps(runbook.look)}\n\n"
        f"## What to press\n\n{_steps(runbook.press)}\n\n"
        f"## The query\n\n`{expression(alert)}`\n"
    )


def _steps(steps: tuple[Step, ...]) -> str:
    return "\n".join(f"{number}. {_step(step)}" for number, step in enumerate(steps, 1))


def _step(step: Step) -> str:
    if step.button:
        return f"{step.text} **{step.button}** on {PAGES[step.page]}."
    shows = f", {step.shows}" if step.shows else ""
    return f"{step.text} ({PAGES[step.page]}{shows})" if step.page else step.text
