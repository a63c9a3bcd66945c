"""The OpenAPI document, with what django-ninja leaves out: problem documents, headers, no null or NUL in queries."""

from __future__ import annotations

from typing import Any

from ninja import NinjaAPI
from ninja.openapi.schema import OpenAPISchema
from ninja.types import DictStrAny

from dalston_queue.api.errors.problems import MEDIA_TYPE

_SECONDS = {"schema": {"type": "integer"}, "description": "Seconds after which it is worth another try."}
_HEADERS: dict[str, dict[str, Any]] = {
    "401": {"WWW-Authenticate": {"schema": {"type": "string"}}},
    "429": {"Retry-After": _SECONDS},
    "503": {"Retry-After": _SECONDS},
}


class DocumentedApi(NinjaAPI):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._cached: dict[str, OpenAPISchema] = {}

    def get_openapi_schema(
        self, *, path_prefix: str | None = None, path_params: DictStrAny | None = None
    ) -> OpenAPISchema:
        """Cached: it takes half a second of CPU, and the route needs no token."""
        prefix = self.get_root_path(path_params or {}) if path_prefix is None else path_prefix
        if prefix not in self._cached:
            self._cached[prefix] = self._build(prefix)
        return self._cached[prefix]

    def _build(self, prefix: str) -> OpenAPISchema:
        schema = super().get_openapi_schema(path_prefix=prefix)
        for operations in schema["paths"].values():
            for operation in operations.values():
                _finish(operation["responses"])
                for parameter in operation.get("parameters", []):
                    parameter["schema"] = _without_null(parameter["schema"])
                    if parameter["in"] == "query":
                        _refuse_nul(parameter["schema"])
        return schema


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """An optional parameter of a query or a header can be left out, but not sent as null."""
    ways = [way for way in schema.get("anyOf", []) if way != {"type": "null"}]
    if len(ways) != 1:
        return schema
    return {**ways[0], **{name: value for name, value in schema.items() if name not in ("anyOf", "default")}}


def _refuse_nul(schema: dict[str, Any]) -> None:
    """Postgres has no text with a NUL, so a request with one is refused."""
    if schema.get("type") == "string" and not schema.keys() & {"format", "pattern", "enum"}:
        schema["pattern"] = r"^[^\u0000]*$"


def _finish(responses: dict[Any, Any]) -> None:
    for status, response in responses.items():
        content = response.get("content", {})
        if int(status) >= 400 and "application/json" in content:
            content[MEDIA_TYPE] = content.pop("application/json")
        if str(status) in _HEADERS:
            response["headers"] = _HEADERS[str(status)]
