"""What a row of the designs may point at: tests (by ast, nothing runs), rows of the ADR, metrics, alerts and logs."""

import ast
import re
from functools import cache

from dalston_queue.metrics.declare import DECLARED
from dalston_queue.metrics.page import docs_page
from tests.conftest import ROOT
from tests.docs.test_log_events import EVENTS, LEFT_OUT

ADR = ROOT / "docs" / "adr" / "0033-what-differs-from-the-first-designs.md"
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"


def problem(pointer: str) -> str:
    """Why this pointer leads nowhere; "" if it does not."""
    kind, colon, name = pointer.partition(":")
    if kind == "adr" and colon:
        return "" if name in adr_rows() else f"ADR 0033 has no row `{name}`"
    if kind == "metric" and colon:
        return "" if name in metrics() else f"no metric {name} is declared"
    if kind == "alert" and colon:
        return "" if name in alerts() else f"alerts.yml has no alert {name}"
    if kind == "log" and colon:
        return "" if name in EVENTS or name in LEFT_OUT else f"tests/docs/test_log_events.py does not know {name!r}"
    module, separator, test = pointer.partition("::")
    if not separator:
        return f"{pointer!r} is no pointer"
    return "" if f"test_{test}" in tests_of(module) else f"tests/{module}.py has no test_{test}"


@cache
def tests_of(module: str) -> frozenset[str]:
    file = ROOT / "tests" / f"{module}.py"
    if not file.exists():
        return frozenset()
    nodes = ast.walk(ast.parse(file.read_text()))
    functions = (node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(name for name in functions if name.startswith("test_"))


@cache
def adr_rows() -> frozenset[str]:
    return frozenset(re.findall(r"^\| `([a-z-]+)` \|", ADR.read_text(), re.MULTILINE))


@cache
def metrics() -> frozenset[str]:
    docs_page()  # imports every module that declares
    return frozenset(DECLARED)


@cache
def alerts() -> frozenset[str]:
    return frozenset(re.findall(r"^\s*- alert: (\w+)$", ALERTS.read_text(), re.MULTILINE))
