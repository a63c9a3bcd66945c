"""/healthz: does this web process answer, and does it reach Postgres and Redis? For load balancers and `./dev up`."""

from __future__ import annotations

from collections.abc import Callable

from django.db import DatabaseError, connection
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe

from dalston_queue.broker.errors import BrokerError
from dalston_queue.redis import probe


@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """200 if everything answers, 503 if not. Says no more than that: it needs no login."""
    parts = {"postgres": _answers(_ask_postgres), "redis": _answers(_ask_redis)}
    healthy = all(parts.values())
    words = {name: "ok" if up else "no answer" for name, up in parts.items()}
    document = {"status": "ok" if healthy else "unavailable", **words}
    return JsonResponse(document, status=200 if healthy else 503, headers={"Cache-Control": "no-store"})


def _answers(ask: Callable[[], object]) -> bool:
    try:
        ask()
    except (DatabaseError, BrokerError):
        return False
    return True


def _ask_postgres() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")


def _ask_redis() -> None:
    probe().ping()  # each time anew: it says how it is now
