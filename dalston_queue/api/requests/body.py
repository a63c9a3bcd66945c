"""Request bodies: limited in size and depth, strict JSON, only values that Postgres and engines can store.

Python's own parser takes NaN, lone surrogates, NUL characters and integers of any length. Each of them would fail
later, in a jsonb column or in a message encoder, with an error that does not name the request.

MsgspecRenderer writes the answers: the same ISO times and ids as everywhere else, at a fraction of the cost.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec
from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, RawPostDataException
from ninja.parser import Parser
from ninja.renderers import BaseRenderer
from ninja.types import DictStrAny

from dalston_queue.api.errors.problems import ApiProblem, Code
from dalston_queue.broker.protocol.validate import MAX_DEPTH

MAX_INT, MIN_INT = 2**63 - 1, -(2**63)
ENVELOPE_BYTES = 16 * 1024
"""Room for everything around `parameters`: names, capabilities, keys."""
BATCH_ROUTE = "/jobs:batch"
MAX_BATCH_BYTES = 16 * 1024 * 1024
"""Of all jobs of a batch together; each of them is no larger than one that comes alone. Django refuses more than
DATA_UPLOAD_MAX_MEMORY_SIZE before the parser runs."""

WORKER_ROUTES = "/internal/workers/"
MIN_WORKER_BYTES = 256 * 1024
"""For a traceback, or the list of all tasks that a worker has."""


class StrictJson(Parser):
    def parse_body(self, request: HttpRequest) -> DictStrAny:
        raw = self._read(request)
        if is_batch(request) and (parts := _batch(raw)) is not None:
            return parts
        data = decoded(raw)
        check(data)
        return cast(DictStrAny, data)

    def _read(self, request: HttpRequest) -> bytes:
        limit = max_body_bytes(request)
        try:
            raw = request.body
        except RequestDataTooBig:
            raise too_large("body", limit) from None
        except RawPostDataException:
            raise ApiProblem(400, Code.MALFORMED_BODY, "Send the body as application/json.") from None
        if len(raw) > limit:
            raise too_large("body", limit)
        return raw


def decoded(raw: bytes | msgspec.Raw) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ApiProblem(400, Code.MALFORMED_BODY, f"The body is not valid JSON: {error}.") from error
    except RecursionError:
        raise _too_deep() from None


def _batch(raw: bytes) -> DictStrAny | None:
    """A batch whose jobs are JSON still: to decode 16 MiB at once takes 0.2 s, in which no other thread goes on. An
    invalid job refuses that job alone (api/schemas/jobs.py). None: this is no batch, or no JSON."""
    try:
        parts: DictStrAny = {**msgspec.json.decode(raw, type=dict[str, msgspec.Raw])}
        jobs = msgspec.json.decode(parts["jobs"], type=list[msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError):
        return None
    others = {name: decoded(value) for name, value in parts.items() if name != "jobs"}
    check(others)
    return {**others, "jobs": jobs}


def max_body_bytes(request: HttpRequest) -> int:
    if WORKER_ROUTES in request.path:
        return max(int(settings.DALSTON_MAX_RESULT_BYTES), MIN_WORKER_BYTES) + ENVELOPE_BYTES
    return MAX_BATCH_BYTES if is_batch(request) else max_job_bytes()


def is_batch(request: HttpRequest) -> bool:
    return request.path.endswith(BATCH_ROUTE)


def max_job_bytes() -> int:
    return int(settings.DALSTON_MAX_PAYLOAD_BYTES) + ENVELOPE_BYTES


def check(value: Any) -> None:
    """Refuses what can be parsed but not stored. Walks with its own stack: depth is what is being tested."""
    stack: list[tuple[Any, int]] = [(value, 1)]
    while stack:
        item, depth = stack.pop()
        if depth > MAX_DEPTH and isinstance(item, dict | list):
            raise _too_deep()
        if isinstance(item, dict):
            for key in item:
                _check_text(key)
            stack.extend((child, depth + 1) for child in item.values())
        elif isinstance(item, list):
            stack.extend((child, depth + 1) for child in item)
        elif isinstance(item, str):
            _check_text(item)
        elif isinstance(item, int) and not MIN_INT <= item <= MAX_INT:
            raise ApiProblem(400, Code.MALFORMED_BODY, f"The integer {str(item)[:24]}… does not fit in 64 bits.")


def check_size(parameters: dict[str, Any]) -> None:
    limit = settings.DALSTON_MAX_PAYLOAD_BYTES
    if len(msgspec.json.encode(parameters)) > limit:
        raise too_large("parameters", limit)


def check_job_size(job: str) -> None:
    """For a job of a batch, as JSON."""
    if len(job.encode()) > max_job_bytes():
        raise too_large("job", max_job_bytes())


def too_large(what: str, limit: int) -> ApiProblem:
    advice = "Put large input where its engine can read it, and send its address."
    return ApiProblem(413, Code.PAYLOAD_TOO_LARGE, f"The {what} may have at most {limit} bytes. {advice}")


def _check_text(text: str) -> None:
    if "\x00" in text:
        raise ApiProblem(400, Code.MALFORMED_BODY, "A string contains the NUL character, which Postgres cannot store.")


def _too_deep() -> ApiProblem:
    return ApiProblem(400, Code.MALFORMED_BODY, f"The body is nested more than {MAX_DEPTH} levels deep.")


class MsgspecRenderer(BaseRenderer):
    media_type = "application/json"

    def render(self, request: HttpRequest, data: Any, *, response_status: int) -> bytes:
        return msgspec.json.encode(data)
