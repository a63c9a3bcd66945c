"""Maps exceptions to problem documents. Any other exception is a 500 that shows only its trace id."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog
from django.core.exceptions import RequestDataTooBig, TooManyFieldsSent, TooManyFilesSent
from django.db import DataError, InterfaceError, OperationalError
from django.http import Http404, HttpRequest, HttpResponse, UnreadablePostError
from django.http.multipartparser import MultiPartParserError
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError

from dalston_queue.api.auth.bearer import CHALLENGE
from dalston_queue.api.errors.problems import ApiProblem, Code, respond
from dalston_queue.api.requests import body
from dalston_queue.api.requests.stream import UploadTooLarge, too_large_upload
from dalston_queue.artifacts import StoreError
from dalston_queue.broker.errors import BrokerError, Invalid
from dalston_queue.health import outages
from dalston_queue.jobs.errors import (
    IdempotencyConflict,
    JobsError,
    SearchTooWide,
    StorageFull,
    TooManySearches,
    sentence,
)

log = structlog.get_logger(__name__)
RETRY = {"Retry-After": "5"}
SAFE = {"GET", "HEAD", "OPTIONS"}


def _http_error(request: HttpRequest, exc: HttpError) -> HttpResponse:
    # django-ninja wraps whatever its body parser raises into its own error, ours too.
    if isinstance(exc.__cause__, ApiProblem):
        return respond(request, exc.__cause__)
    if isinstance(exc, AuthenticationError):
        detail = "Send a token as `Authorization: Bearer dal_…`, or log in. `manage.py token create` makes a token."
        return respond(request, ApiProblem(401, Code.UNAUTHENTICATED, detail, headers=CHALLENGE))
    return respond(request, ApiProblem(exc.status_code, Code.REQUEST_REFUSED, exc.message))


def _invalid(request: HttpRequest, exc: ValidationError) -> HttpResponse:
    errors = [{"field": _field(error["loc"]), "message": error["msg"], "kind": error["type"]} for error in exc.errors]
    first = errors[0]
    more = f" ({len(errors) - 1} more in `errors`)" if len(errors) > 1 else ""
    return respond(request, ApiProblem(422, Code.INVALID, f"{first['field']}: {first['message']}{more}", errors=errors))


def _field(location: Any) -> str:
    """("body", "payload", "priority") -> "priority": the client does not know the names of our arguments."""
    names = [str(part) for part in location]
    if names and names[0] == "body":
        names = names[2:] or ["body"]
    elif len(names) > 1:
        names = names[1:]
    return ".".join(names)


def _not_acceptable(request: HttpRequest, exc: Exception) -> HttpResponse:
    return respond(request, ApiProblem(422, Code.INVALID, sentence(exc)))


def _too_wide(request: HttpRequest, exc: SearchTooWide) -> HttpResponse:
    return respond(request, ApiProblem(422, Code.SEARCH_TOO_WIDE, sentence(exc)))


def _too_many_searches(request: HttpRequest, exc: TooManySearches) -> HttpResponse:
    return respond(request, ApiProblem(429, Code.RATE_LIMITED, sentence(exc), headers=RETRY))


def _not_storable(request: HttpRequest, exc: DataError) -> HttpResponse:
    """Values that pass validation and that Postgres refuses: a NUL in a query or a cookie, a number out of range."""
    log.warning("api.not_storable", path=request.path, error_type=type(exc).__name__)  # its text quotes the value
    return respond(request, ApiProblem(422, Code.INVALID, "A value in the request cannot be stored or compared."))


def _key_taken(request: HttpRequest, exc: IdempotencyConflict) -> HttpResponse:
    return respond(request, ApiProblem(409, Code.IDEMPOTENCY_CONFLICT, sentence(exc)))


def _no_route(request: HttpRequest, exc: Http404) -> HttpResponse:
    return respond(
        request, ApiProblem(404, Code.NOT_FOUND, "There is no such resource; /api/v1/docs lists the routes.")
    )


def _too_big(request: HttpRequest, exc: RequestDataTooBig) -> HttpResponse:
    return respond(request, body.too_large("body", body.max_body_bytes(request)))


def _no_database(request: HttpRequest, exc: Exception) -> HttpResponse:
    if not outages.report(exc):
        log.warning("api.database_unavailable", path=request.path, error=str(exc))
    detail = "Postgres does not answer right now. Try again."
    if request.method not in SAFE:  # the statement may have been sent before Postgres stopped answering
        detail += " The request may still be executed: repeat a submission with its idempotency key, and"
        detail += " check the state before you repeat anything else."
    return respond(request, ApiProblem(503, Code.DATABASE_UNAVAILABLE, detail, headers=RETRY))


def _no_redis(request: HttpRequest, exc: Exception) -> HttpResponse:
    if not outages.report(exc):
        log.warning("api.redis_unavailable", path=request.path, error=str(exc))
    detail = "This answer needs Redis, which does not answer right now. Submitting and reading tasks still works."
    return respond(request, ApiProblem(503, Code.REDIS_UNAVAILABLE, detail, headers=RETRY))


def _upload_too_large(request: HttpRequest, exc: UploadTooLarge) -> HttpResponse:
    return respond(request, too_large_upload())


def _no_store(request: HttpRequest, exc: StoreError) -> HttpResponse:
    log.warning("api.store_unavailable", path=request.path, error=str(exc))
    detail = f"This needs the artifact store: {exc}."
    return respond(request, ApiProblem(503, Code.STORE_UNAVAILABLE, detail, headers={"Retry-After": "30"}))


def _storage_full(request: HttpRequest, exc: StorageFull) -> HttpResponse:
    return respond(request, ApiProblem(507, Code.STORAGE_FULL, sentence(exc)))


def _unreadable_form(request: HttpRequest, exc: Exception) -> HttpResponse:
    return respond(request, ApiProblem(400, Code.MALFORMED_BODY, f"The form can't be read: {exc}."))


def _broken_upload(request: HttpRequest, exc: Exception) -> HttpResponse:
    return respond(request, ApiProblem(400, Code.UPLOAD_BROKEN, f"The upload broke off: {exc}. Nothing was stored."))


def _unexpected(request: HttpRequest, exc: Exception) -> HttpResponse:
    log.error("api.internal_error", path=request.path, method=request.method, exc_info=exc)
    detail = "Something went wrong on our side. The trace id finds it in the server's log."
    return respond(request, ApiProblem(500, Code.INTERNAL, detail))


_HANDLERS: dict[type[Exception], Callable[..., HttpResponse]] = {
    Exception: _unexpected,
    ApiProblem: respond,
    HttpError: _http_error,
    ValidationError: _invalid,
    Http404: _no_route,
    RequestDataTooBig: _too_big,
    OperationalError: _no_database,
    InterfaceError: _no_database,
    DataError: _not_storable,
    UploadTooLarge: _upload_too_large,
    StoreError: _no_store,
    StorageFull: _storage_full,
    MultiPartParserError: _unreadable_form,
    TooManyFieldsSent: _unreadable_form,
    TooManyFilesSent: _unreadable_form,
    UnreadablePostError: _broken_upload,
    BrokerError: _no_redis,
    Invalid: _not_acceptable,
    JobsError: _not_acceptable,
    SearchTooWide: _too_wide,
    TooManySearches: _too_many_searches,
    IdempotencyConflict: _key_taken,
}


def install(api: NinjaAPI) -> None:
    for kind, handler in _HANDLERS.items():
        api.add_exception_handler(kind, handler)
