"""The routes of docs/api.md with their scopes, and what the OpenAPI document says of their requests."""

from __future__ import annotations

import re
from typing import Any

import jsonschema_rs

from dalston_queue.api.api import api
from tests.conftest import ROOT

MISSING = "00000000-0000-7000-8000-000000000000"
Route = tuple[str, str]


def documented() -> dict[Route, set[str]]:
    """(method, path) -> scopes, from the tables of docs/api.md."""
    page = (ROOT / "docs" / "api.md").read_text()
    rows = re.findall(r"^\| `([A-Z]+) (\S+)` \| (.*?) \|", page, re.MULTILINE)
    assert len(rows) == len({(method, path) for method, path, _ in rows}), "a route is on the page twice"
    return {(method, path): set(re.findall(r"`(\w+)`", scopes)) for method, path, scopes in rows}


ROUTES = documented()
_SCHEMA = api.get_openapi_schema(path_prefix="")
OPERATIONS: dict[Route, dict[str, Any]] = {
    (method.upper(), path): operation
    for path, operations in _SCHEMA["paths"].items()
    for method, operation in operations.items()
}


def missing(route: Route) -> str:
    """The path of a route, with ids and names that do not exist."""
    method, path = route
    for parameter in OPERATIONS[method, path].get("parameters", ()):
        if parameter["in"] == "path":
            schema = _resolved(parameter["schema"])
            value = MISSING if schema.get("format") == "uuid" else "999" if schema["type"] == "integer" else "nosuch"
            path = path.replace(f"{{{parameter['name']}}}", schema["enum"][0] if "enum" in schema else value)
    return path


def _resolved(schema: dict[str, Any]) -> dict[str, Any]:
    return _SCHEMA["components"]["schemas"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def status_of(route: Route) -> int:
    """The answer to an empty body and missing ids: 422 if fields are required, else 404, or 200 without ids."""
    content = OPERATIONS[route].get("requestBody", {}).get("content", {})
    body: dict[str, Any] = next((each["schema"] for each in content.values()), {})
    if not jsonschema_rs.is_valid({**body, "components": _SCHEMA["components"]}, {}):
        return 422
    return 404 if "{" in route[1] else 200
