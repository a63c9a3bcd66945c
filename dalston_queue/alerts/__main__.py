"""Writes Prometheus' rules, docs/operate/alerts.md and docs/runbooks/ from the table; `--mine` prints your rules."""

import os
import sys
from pathlib import Path

import django

ROOT = Path(__file__).resolve().parents[2]


def files() -> dict[str, str]:
    """By path from the root of the project."""
    from dalston_queue.alerts.page import alerts_page, rules_text, runbook_page
    from dalston_queue.alerts.table import ALERTS

    runbooks = {f"docs/runbooks/{alert.slug}.md": runbook_page(alert) for alert in ALERTS}
    return {"deploy/prometheus/alerts.yml": rules_text(), "docs/operate/alerts.md": alerts_page(), **runbooks}


def main(arguments: list[str]) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dalston_site.settings")
    django.setup()
    if arguments == ["--mine"]:
        from dalston_queue.alerts.page import rules_text
        from dalston_queue.alerts.table import number_of

        sys.stdout.write(rules_text(number_of))
        return
    (ROOT / "docs" / "runbooks").mkdir(exist_ok=True)
    for path, text in files().items():
        (ROOT / path).write_text(text)


if __name__ == "__main__":
    main(sys.argv[1:])
