"""Rules of the API that JSON Schema can't express, for requests that are meant to be accepted.

Loaded by schemathesis (SCHEMATHESIS_HOOKS). Negative requests are sent as they are. About half of the positive ones
name rows that exist (SCHEMA_EXISTING, a file made by existing.py); the others name none. Each answer goes into the
file SCHEMA_ANSWERS.
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
MAX_DEPTH = 64
MAX_NAME = 41
MISSING = "00000000-0000-7000-8000-000000000000"
# A second result would wait until the first is stored, and no orchestrator runs.
ONCE = {"POST /api/v1/internal/workers/{worker_id}/result"}

_existing: dict[str, list[dict[str, Any]]] = json.loads(Path(os.environ["SCHEMA_EXISTING"]).read_text())
_names = {str(value) for known in _existing.values() for named in known for value in named.values()}
_named: Counter[str] = Counter()


@schemathesis.hook
def filter_case(ctx: HookContext, case: AnyCase) -> bool:
    """No NUL, no integer past 64 bits, nothing nested deeper than 64 levels, anywhere in a body (docs/api.md)."""
    if not _is_positive(case) or not isinstance(case.body, dict | list):
        return True
    return _can_be_stored(case.body)


@schemathesis.hook
def before_call(ctx: HookContext, case: AnyCase, **kwargs: Any) -> None:
    _wait_shortly(case)
    if not _names_what_exists(case):
        _name_missing(case)
    if not _is_positive(case) or not isinstance(case.body, dict):
        return
    body: dict[str, Any] = case.body
    # In the header and in the body they must be equal.
    if body.get("idempotency_key") and case.headers:
        case.headers.pop("Idempotency-Key", None)
    # Allowed addresses are a setting.
    body.pop("callback_url", None)
    _not_too_late(body)
    if case.path == "/api/v1/audio/transcriptions":
        _as_upload(body)
    if case.path == "/api/v1/jobs":
        # So are pipelines.
        if body.pop("pipeline", None) is not None:
            body |= {"name": "fuzzed", "stages": [{"stage": "echo"}]}
        body["stages"] = _as_dag(body["stages"])


@schemathesis.hook
def after_call(ctx: HookContext, case: AnyCase, response: Response) -> None:
    with Path(os.environ["SCHEMA_ANSWERS"]).open("a") as answers:
        answers.write(f"{response.status_code} {case.operation.label}\n")


def _names_what_exists(case: AnyCase) -> bool:
    """The first time, and then by a hash of the generated request."""
    label = case.operation.label
    known = _existing.get(label, [])
    if not known or not _is_positive(case) or _follows(case):
        return False
    generated = repr((case.path_parameters, case.query, case.body)).encode()
    chosen = hashlib.sha256(generated).digest()[0] % 2 == 0
    if (_named[label] and not chosen) or (label in ONCE and _named[label] >= len(known)):
        return False
    named = known[_named[label] % len(known)]
    _named[label] += 1
    # Copied: the next case may share these objects.
    path, body = case.path_parameters, case.body
    case.path_parameters = {**path, **{name: value for name, value in named.items() if name in path}}
    if isinstance(body, dict):
        case.body = {**body, **{name: value for name, value in named.items() if name not in path}}
    return True


def _as_upload(form: dict[str, Any]) -> None:
    """A recording that is not empty, or an address that may be called; a language that each model speaks."""
    if "audio_url" in form:
        form["audio_url"] = "https://example.com/speech.wav"
        form.pop("file", None)
    else:
        form["file"] = "RIFF speech"
    if "language" in form:
        form["language"] = "en"


def _not_too_late(part: dict[str, Any]) -> None:
    """At most ten years ahead."""
    if (part.get("scheduled_at") or "") > "2030":
        part["scheduled_at"] = None


def _as_dag(stages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Names are unique, each stage waits for earlier ones only, and a long name gives no queue."""
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
    """Long polls are short: no engine runs."""
    try:
        if case.query and 0 <= float(case.query["wait"]) <= 30:
            case.query["wait"] = SHORT_S
    except (KeyError, TypeError, ValueError):
        pass


def _name_missing(case: AnyCase) -> None:
    """Writes name no row that other requests need. A stream of events lasts as long as its job, and the log of a dead
    node is rightly 503. A cancelled row can still be read, which the stateful check takes for a failed deletion."""
    writes = case.method == "DELETE" or (case.method == "POST" and not _follows(case))
    if writes or case.path.endswith(("/events", "/logs")):
        parameters = case.path_parameters or {}
        case.path_parameters = {name: _missing(value) for name, value in parameters.items()}


def _missing(value: Any) -> Any:
    if _is_id(value):
        return MISSING
    return "nosuch" if isinstance(value, str) and value in _names else value


def _follows(case: AnyCase) -> bool:
    return case.meta is not None and case.meta.phase.name is TestPhase.STATEFUL


def _is_id(value: Any) -> bool:
    try:
        return bool(UUID(str(value)))
    except ValueError:
        return False


def _is_positive(case: AnyCase) -> bool:
    return case.meta is not None and case.meta.generation.mode is GenerationMode.POSITIVE
