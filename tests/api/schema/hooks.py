"""Rules of the API that JSON Schema can't express, for requests that are meant to be accepted.

Loaded by schemathesis (SCHEMATHESIS_HOOKS). Requests that are meant to be refused are sent as they are. Of those that
are meant well about half name what exists (SCHEMA_EXISTING, a file made of tests/api/schema/existing.py); the others
name nothing that does. Each answer goes into the file SCHEMA_ANSWERS.
"""

import hashlib
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import UUID

import schemathesis
from schemathesis import Case, HookContext
from schemathesis.core.transport import Response
from schemathesis.generation import GenerationMode
from schemathesis.generation.meta import TestPhase

AnyCase = Case[Any]

SHORT_S = 0.01
MAX_DEPTH = 32
MAX_NAME = 41
NOBODY = "00000000-0000-7000-8000-000000000000"
# Its second result would wait for the first to be stored, and nobody stores it.
ONCE = {"POST /api/v1/internal/workers/{worker_id}/result"}

_existing: dict[str, list[dict[str, Any]]] = json.loads(Path(os.environ["SCHEMA_EXISTING"]).read_text())
_names = {str(value) for known in _existing.values() for named in known for value in named.values()}
_named: Counter[str] = Counter()


@schemathesis.hook
def filter_case(ctx: HookContext, case: AnyCase) -> bool:
    """No NUL, no integer past 64 bits, nothing nested deeper than 32, anywhere in a body (docs/api.md)."""
    if not _is_meant_well(case) or not isinstance(case.body, dict | list):
        return True
    return _can_be_stored(case.body)


@schemathesis.hook
def before_call(ctx: HookContext, case: AnyCase, **kwargs: Any) -> None:
    _wait_shortly(case)
    if not _names_what_exists(case):
        _touch_nobody(case)
    if not _is_meant_well(case) or not isinstance(case.body, dict):
        return
    body: dict[str, Any] = case.body
    # Given in both places they must be equal.
    if body.get("idempotency_key") and case.headers:
        case.headers.pop("Idempotency-Key", None)
    # Which addresses may be called is for the installation to say.
    body.pop("callback_url", None)
    _not_too_late(body)
    if case.path == "/api/v1/jobs":
        # So are its pipelines.
        if body.pop("pipeline", None) is not None:
            body |= {"name": "fuzzed", "stages": [{"stage": "echo"}]}
        body["stages"] = _as_dag(body["stages"])


@schemathesis.hook
def after_call(ctx: HookContext, case: AnyCase, response: Response) -> None:
    with Path(os.environ["SCHEMA_ANSWERS"]).open("a") as answers:
        answers.write(f"{response.status_code} {case.operation.label}\n")


def _names_what_exists(case: AnyCase) -> bool:
    """The first time, and then where a hash of what was generated says so."""
    label = case.operation.label
    known = _existing.get(label, [])
    if not known or not _is_meant_well(case) or _follows(case):
        return False
    generated = repr((case.path_parameters, case.query, case.body)).encode()
    chosen = hashlib.sha256(generated).digest()[0] % 2 == 0
    if (_named[label] and not chosen) or (label in ONCE and _named[label] >= len(known)):
        return False
    named = known[_named[label] % len(known)]
    _named[label] += 1
    # Not in place: the next case may be made of the same parts.
    path, body = case.path_parameters, case.body
    case.path_parameters = {**path, **{name: value for name, value in named.items() if name in path}}
    if isinstance(body, dict):
        case.body = {**body, **{name: value for name, value in named.items() if name not in path}}
    return True


def _not_too_late(part: dict[str, Any]) -> None:
    """At most ten years ahead."""
    if (part.get("scheduled_at") or "") > "2030":
        part["scheduled_at"] = None


def _as_dag(stages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Names are unique, nobody waits for a later stage or one that is not there, and a long name gives no queue."""
    found: dict[str, dict[str, Any]] = {}
    for stage in stages:
        name = stage["stage"]
        if name in found:
            continue
        after = {"after": [parent for parent in stage["after"] if parent in found]} if "after" in stage else {}
        queue = {} if stage.get("queue") or len(name) <= MAX_NAME else {"queue": "echo"}
        found[name] = {**stage, **after, **queue}
        _not_too_late(found[name])
    return [*found.values()]


def _can_be_stored(value: Any, depth: int = 1) -> bool:
    if isinstance(value, dict | list):
        parts = [*value, *value.values()] if isinstance(value, dict) else value
        return depth <= MAX_DEPTH and all(_can_be_stored(part, depth + 1) for part in parts)
    if isinstance(value, str):
        return "\x00" not in value
    return not isinstance(value, int) or -(2**63) <= value < 2**63


def _wait_shortly(case: AnyCase) -> None:
    """A long poll is tried, but not for long: nobody works on the tasks."""
    try:
        if case.query and 0 <= float(case.query["wait"]) <= 30:
            case.query["wait"] = SHORT_S
    except (KeyError, TypeError, ValueError):
        pass


def _touch_nobody(case: AnyCase) -> None:
    """What others need, or what an earlier answer named, is read only. A stream of events lasts as long as its job. A
    dead node is rightly 503 when it is asked for a log. What is cancelled or closed can still be read, and a check of
    requests that follow each other takes that for a deletion that failed."""
    acts = case.method == "DELETE" or (case.method == "POST" and not _follows(case))
    if acts or case.path.endswith(("/events", "/logs")):
        given = case.path_parameters or {}
        case.path_parameters = {name: _nobody(value) for name, value in given.items()}


def _nobody(value: Any) -> Any:
    if _is_id(value):
        return NOBODY
    return "nobody" if isinstance(value, str) and value in _names else value


def _follows(case: AnyCase) -> bool:
    return case.meta is not None and case.meta.phase.name is TestPhase.STATEFUL


def _is_id(value: Any) -> bool:
    try:
        return bool(UUID(str(value)))
    except ValueError:
        return False


def _is_meant_well(case: AnyCase) -> bool:
    return case.meta is not None and case.meta.generation.mode is GenerationMode.POSITIVE
