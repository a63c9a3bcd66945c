"""docs/orchestrator.md names every duty."""

import re
from pathlib import Path

from dalston_queue.orchestrator.duties.run import DUTIES

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "orchestrator.md").read_text()


def listed(title: str) -> set[str]:
    [section] = re.findall(rf"^## {title}$(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return set(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE))


def test_every_duty_is_on_the_page() -> None:
    of_orchestrators = {"alerts", "notifications", "recovery", "webhook sender"}
    assert listed("Duties") == of_orchestrators | {spec.name for spec in DUTIES}
