"""What a row of the designs may point at: tests (by ast, nothing runs), rows of the ADR, settings with their defaults,
routes and fields of the API, metrics with their labels, alerts and logs. A row may have several, joined by " + "."""

import ast
import re
from collections.abc import Callable
from functools import cache

import msgspec

from dalston_queue.metrics.declare import DECLARED
from dalston_queue.metrics.page import docs_page
from dalston_site.declared import DECLARED as SETTINGS
from tests.api.documented import ROUTES
from tests.conftest import ROOT
from tests.docs.test_log_events import EVENTS

ADR = ROOT / "docs" / "adr" / "0033-what-differs-from-the-first-designs.md"
ALERTS = ROOT / "deploy" / "prometheus" / "alerts.yml"


def problem(pointers: str) -> str:
    """Why one of these pointers leads nowhere; "" if each leads somewhere."""
    return "; ".join(filter(None, map(_problem, pointers.split(" + "))))


def _problem(pointer: str) -> str:
    kind, colon, name = pointer.partition(":")
    if "::" in pointer or not colon:
        return _no_test(pointer)
    check = KINDS.get(kind)
    return check(name) if check else f"{pointer!r} is no pointer"


def _no_test(pointer: str) -> str:
    module, separator, test = pointer.partition("::")
    if not separator:
        return f"{pointer!r} is no pointer"
    return "" if f"test_{test}" in tests_of(module) else f"tests/{module}.py has no test_{test}"


def _no_row(name: str) -> str:
    return "" if name in adr_rows() else f"ADR 0033 has no row `{name}`"


def _no_default(setting: str) -> str:
    name, _, value = setting.partition("=")
    found = SETTINGS.get(name)
    if found is None:
        return f"no setting {name} is declared"
    return "" if str(found.default).removesuffix(".0") == value else f"{name} is {found.default}, not {value}"


def _no_route(name: str) -> str:
    return "" if tuple(name.split(" ", 1)) in ROUTES else f"the API has no route {name}"


def _no_field(name: str) -> str:
    schema, _, fields = name.partition(".")
    absent = set(fields.split(",")) - schemas().get(schema, frozenset())
    return f"{schema} of the API has no {', '.join(sorted(absent))}" if absent else ""


def _no_metric(with_labels: str) -> str:
    name, *labels = re.findall(r"\w+", with_labels) or [""]
    docs_page()  # imports every module that declares
    if name not in DECLARED:
        return f"no metric {name} is declared"
    absent = set(labels) - DECLARED[name].labels.keys()
    return f"{name} has no label {', '.join(sorted(absent))}" if absent else ""


def _no_alert(name: str) -> str:
    return "" if name in alerts() else f"alerts.yml has no alert {name}"


def _no_event(name: str) -> str:
    return "" if name in EVENTS else f"tests/docs/test_log_events.py does not know {name!r}"


KINDS: dict[str, Callable[[str], str]] = {
    "adr": _no_row,
    "setting": _no_default,
    "route": _no_route,
    "field": _no_field,
    "metric": _no_metric,
    "alert": _no_alert,
    "log": _no_event,
}


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
def alerts() -> frozenset[str]:
    return frozenset(re.findall(r"^\s*- alert: (\w+)$", ALERTS.read_text(), re.MULTILINE))


@cache
def schemas() -> dict[str, frozenset[str]]:
    """The fields of each schema of the API, and of the messages in Redis."""
    from dalston_queue.api.api import api
    from dalston_queue.broker.protocol.messages import TaskMessage
    from dalston_queue.broker.protocol.record import Record
    from dalston_queue.broker.views.pages import PendingEntry

    found = api.get_openapi_schema(path_prefix="")["components"]["schemas"]
    ours = {name: frozenset(schema.get("properties", ())) for name, schema in found.items()}
    for kind in (TaskMessage, Record, PendingEntry):
        ours[kind.__name__] = frozenset(each.name for each in msgspec.structs.fields(kind))
    return ours
