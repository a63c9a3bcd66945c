"""What a server process needs: Postgres with its migrations, Redis, and orchestrators that apply events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import structlog
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from django.db.migrations.loader import MigrationLoader

from dalston_queue.broker.errors import BrokerError, Misconfigured
from dalston_queue.health.loops import Loop
from dalston_queue.health.report import OK, Finding, Findings, Grade, Health, Probe, failed, standing_still
from dalston_queue.redis import probe

log = structlog.get_logger(__name__)

_UNKNOWN = "unknown: {} does not answer"


def health_of(
    process: str, loops: Sequence[Loop], *, applies_events: bool, factor: float = 1.0, stopping: Callable[[], str]
) -> Health:
    """`factor`: how many times DALSTON_STUCK_AFTER_S a loop may be silent."""

    def alive() -> Findings:
        return standing_still({loop.name: loop.idle_s() for loop in loops}, factor * settings.DALSTON_STUCK_AFTER_S)

    return Health(process, alive=alive, ready=probes(applies_events=applies_events), stopping=stopping)


def probes(*, applies_events: bool) -> list[Probe]:
    """Late events fail an orchestrator. Another process stays ready: without orchestrators the dashboard and the API
    are needed more than ever."""
    late = Grade.FAILED if applies_events else Grade.DEGRADED
    return [
        Probe(("postgres", "migrations"), ask_postgres),
        Probe(("redis", "events"), lambda: ask_redis(late)),
    ]


def ask_postgres() -> Findings:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_is_in_recovery()")
            replica = bool(cursor.fetchone()[0])
        return {
            "postgres": failed("is a replica and can't be written") if replica else OK,
            "migrations": _migrations(),
        }
    except (DatabaseError, InterfaceError):
        return {"postgres": failed("does not answer"), "migrations": failed(_UNKNOWN.format("Postgres"))}
    finally:
        connection.close()  # of this thread


def wait_for_migrations(wait: Callable[[float], bool]) -> None:
    """Returns once all migrations of this version are applied. `wait` sleeps, and says whether to stop. While Postgres
    is away it returns as well: that is for the caller's own retries."""
    is_logged = False
    while (found := ask_postgres())["postgres"] == OK and found["migrations"] != OK:
        if not is_logged:
            log.warning("waiting for migrations", reason=found["migrations"].reason)
            is_logged = True
        if wait(1.0):
            return


def _migrations() -> Finding:
    """Further ones in the database are of a newer version, which is being installed: no reason to stop."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('django_migrations') IS NOT NULL")
        if not cursor.fetchone()[0]:
            return failed("none is applied: manage.py migrate")
        cursor.execute("SELECT app, name FROM django_migrations")
        missing = len(_wanted() - set(cursor.fetchall()))
    return failed(f"{missing} not applied: manage.py migrate") if missing else OK


@cache
def _wanted() -> frozenset[tuple[str, str]]:
    return frozenset(MigrationLoader(None, ignore_no_migrations=True).disk_migrations or {})


def ask_redis(late: Grade = Grade.DEGRADED) -> Findings:
    unknown = failed(_UNKNOWN.format("Redis"))
    try:
        broker = probe()
        broker.ping()
        oldest_ms = broker.oldest_event_ms()
    except Misconfigured:
        return {"redis": failed("refuses our user, or a command"), "events": unknown}
    except BrokerError:
        return {"redis": failed("does not answer"), "events": unknown}
    seconds = oldest_ms / 1000
    if seconds > settings.DALSTON_STUCK_AFTER_S:
        return {"redis": OK, "events": Finding(late, f"the oldest has waited for an orchestrator for {seconds:.0f} s")}
    return {"redis": OK, "events": OK}
