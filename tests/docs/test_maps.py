"""The docstring of a package lists all its modules, and the tutorial names files that exist."""

import ast
import re

import pytest

from tests.conftest import ROOT

PAGES = [f"dalston_queue/dashboard/{path.parent.name}" for path in ROOT.glob("dalston_queue/dashboard/*/__init__.py")]


@pytest.mark.parametrize(
    "package",
    [
        "client/dalston_client",
        "client/dalston_client/cli",
        "dalston_queue",
        "dalston_queue/accounts",
        "dalston_queue/admin",
        "dalston_queue/alerts",
        "dalston_queue/api",
        "dalston_queue/audit",
        "dalston_queue/broker",
        "dalston_queue/broker/connection",
        "dalston_queue/broker/engine",
        "dalston_queue/broker/nodes",
        "dalston_queue/broker/operations",
        "dalston_queue/broker/orchestrator",
        "dalston_queue/broker/protocol",
        "dalston_queue/broker/views",
        "dalston_queue/dashboard",
        *sorted(PAGES),
        "dalston_queue/health",
        "dalston_queue/jobs",
        "dalston_queue/jobs/lifecycle",
        "dalston_queue/jobs/operator",
        "dalston_queue/jobs/queries",
        "dalston_queue/jobs/submit",
        "dalston_queue/jobs/webhooks",
        "dalston_queue/metrics",
        "dalston_queue/models",
        "dalston_queue/orchestrator",
        "dalston_queue/orchestrator/duties",
        "dalston_site/embedded",
        "dalston_site/postgres",
        "dalston_site/up",
        "engines/align",
        "engines/audio",
        "engines/merge",
        "engines/prepare",
        "engines/sdk",
        "engines/sdk/models",
        "engines/transcribe",
        "supervisor",
        "supervisor/commands",
        "supervisor/gpu",
        "supervisor/logs",
        "supervisor/policy",
        "supervisor/process",
    ],
)
def test_the_map_of_a_package_has_every_file(package: str) -> None:
    folder = ROOT / package
    page = ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""
    files = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert sorted(files - set(re.findall(r"\w+", page))) == []


def test_the_files_that_the_tutorial_names_exist() -> None:
    text = (ROOT / "tests/fundamentals/test_a_task.py").read_text()
    named = re.findall(r"[\w/]+/\w+\.(?:py|lua)", text)
    assert len(named) > 15
    assert [name for name in named if not (ROOT / "dalston_queue" / name).is_file()] == []
