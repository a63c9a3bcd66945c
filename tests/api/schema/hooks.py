"""Rules of the API that JSON Schema can't express, for requests that are meant to be accepted.

Loaded by schemathesis (SCHEMATHESIS_HOOKS). Requests that are meant to be refused are sent as they are.
"""

from typing import Any
from uuid import UUID

import schemathesis
from schemathesis import Case, HookContext
from schemathesis.generation import GenerationMode

AnyCase = Case[Any]

SHORT_S = 0.01
MAX_DEPTH = 32
NOBODY = "00000000-0000-7000-8000-000000000000"


@schemathesis.hook
def filter_case(ctx: HookContext, case: AnyCase) -> bool:
    """No NUL, no integer past 64 bits, nothing nested deeper than 32, anywhere in a body (docs/api.md)."""
    if not _is_meant_well(case) or not isinstance(case.body, dict | list):
        return True
    return _can_be_stored(case.body)


@schemathesis.hook
def before_call(ctx: HookContext, case: AnyCase, **kwargs: Any) -> None:
    _wait_shortly(case)
    _follow_nobody(case)
    if not _is_meant_well(case) or not isinstance(case.body, dict):
        return
    # Given in both places they must be equal.
    if case.body.get("idempotency_key") and case.headers:
        case.headers.pop("Idempotency-Key", None)
    # Which addresses may be called is for the installation to say.
    jobs: Any = case.body.get("jobs", [case.body])
    for job in jobs:
        job.pop("callback_url", None)
        # At most ten years ahead.
        for part in (job, *job.get("stages", [])):
            if isinstance(part, dict) and (part.get("scheduled_at") or "") > "2030":
                part["scheduled_at"] = None


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


def _follow_nobody(case: AnyCase) -> None:
    """A stream of events lasts as long as its job, and nobody works on the jobs that are made here."""
    if case.path.endswith("/events") and _is_id((case.path_parameters or {}).get("job_id")):
        case.path_parameters["job_id"] = NOBODY


def _is_id(value: Any) -> bool:
    try:
        return bool(UUID(str(value)))
    except ValueError:
        return False


def _is_meant_well(case: AnyCase) -> bool:
    return case.meta is not None and case.meta.generation.mode is GenerationMode.POSITIVE
