"""Errors of the client. Everything that this package raises on purpose is a DalstonError.

DalstonError
├── NotConfigured      no address, no token, or one that cannot be used
├── Unreachable        the server did not answer, or not in time
└── ApiError           the API answered with a problem document: `code` is stable, `detail` is a sentence
    ├── Invalid        400, 413, 422: the request is wrong; sending it again changes nothing
    ├── Refused        401, 403: the token is not valid, or may not do this
    ├── NotFound       404: it does not exist, or belongs to another project
    ├── Conflict       409: the state does not allow it, or the idempotency key was used for another request
    ├── Busy           429: too many calls, or the queue is full
    └── Unavailable    5xx: the server cannot do it now
"""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import httpx


class DalstonError(Exception):
    retry_after: float | None = None


class NotConfigured(DalstonError):
    pass


class Unreachable(DalstonError):
    def __init__(self, message: str, *, timed_out: bool = False) -> None:
        super().__init__(message)
        self.timed_out = timed_out


class ApiError(DalstonError):
    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        trace_id: str | None = None,
        errors: list[dict[str, Any]] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.trace_id = trace_id
        self.errors = errors or []
        self.retry_after = retry_after

    def __repr__(self) -> str:
        return f"{type(self).__name__}(status={self.status}, code={self.code!r}, detail={self.detail!r})"


class Invalid(ApiError):
    pass


class Refused(ApiError):
    pass


class NotFound(ApiError):
    pass


class Conflict(ApiError):
    pass


class Busy(ApiError):
    pass


class Unavailable(ApiError):
    pass


_KINDS: dict[int, type[ApiError]] = {
    400: Invalid,
    401: Refused,
    403: Refused,
    404: NotFound,
    409: Conflict,
    413: Invalid,
    422: Invalid,
    429: Busy,
}


def error_of(response: httpx.Response) -> ApiError:
    """From a problem document, or from a proxy's error page. The body must have been read."""
    kind = _KINDS.get(response.status_code, Unavailable if response.status_code >= 500 else ApiError)
    try:
        document = response.json()
    except ValueError:
        document = None
    if not isinstance(document, dict) or "code" not in document:
        detail = f"HTTP {response.status_code} {response.reason_phrase}, not from Dalston: is the address right?"
        return kind(response.status_code, "", detail, retry_after=_retry_after(response))
    return kind(
        response.status_code,
        str(document["code"]),
        str(document.get("detail") or document.get("title") or document["code"]),
        trace_id=document.get("trace_id"),
        errors=document.get("errors"),
        retry_after=_retry_after(response),
    )


def _retry_after(response: httpx.Response) -> float | None:
    """In seconds; the header has a number or a date."""
    value = response.headers.get("Retry-After", "").strip()
    if value.isdecimal():
        return float(value)
    try:
        return max(0.0, (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return None
