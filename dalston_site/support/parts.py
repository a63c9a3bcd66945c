"""Parts of the support bundle: named columns, named settings, and our own sentences."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import msgspec
from django.conf import settings
from django.db import connection

from dalston_site import declared
from dalston_site.support.log_lines import log_lines
from dalston_site.support.secrets import masked
from dalston_site.version import installed_version
from supervisor.findings import Finding

EVENTS = 1000
ACTIONS = 200

Part = Callable[[], str]

SAFE_SETTINGS = (
    "ALLOWED_HOSTS", "DALSTON_DEV", "DALSTON_HTTPS", "DALSTON_METRICS_ADDRESS", "DALSTON_REDIS_CLUSTER",
    "DALSTON_REDIS_PREFIX", "DALSTON_RETRY_BUDGETS", "DALSTON_TOKEN_RATE_PRESET", "DEBUG", "LOG_LEVEL", "TIME_ZONE",
)  # fmt: skip
"""Beside the numbers, which can't be secret."""
URLS = ("DATABASE_URL", "REDIS_URL", "DALSTON_ARTIFACTS_URL")


def parts(doctor: Callable[[], Iterable[Finding]], state_dir: Path | None) -> dict[str, Part]:
    """By file name. On a node without a database those of Postgres are left out."""
    found: dict[str, Part] = {
        "versions.json": versions,
        "settings.json": safe_settings,
        "doctor.txt": lambda: "\n".join(
            f"{each.grade.name.lower():9} {each.subject}: {each.text}" for each in doctor()
        ),
    }
    if connection.vendor == "postgresql":
        found |= {
            "status.txt": lambda: _status()[0],
            "status.json": lambda: _status()[1],
            "migrations.txt": migrations,
            "events.jsonl": events,
            "audit.json": audit,
            "alerts.jsonl": alerts,
            "servers.json": servers,
        }
    if state_dir is not None:
        found |= {f"logs/{file.name}": _log_part(file) for file in log_files(state_dir)}
    return found


def versions() -> str:
    packages = {each.metadata["Name"]: each.version for each in distributions()}
    return _json(
        {
            "dalston": installed_version(),
            "python": sys.version,
            "platform": platform.platform(),
            "os": _os_release(),
            "processors": os.cpu_count(),
            "packages": dict(sorted(packages.items(), key=lambda item: str(item[0]).lower())),
        }
    )


def _os_release() -> str:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        return ""


def safe_settings() -> str:
    numbers = {name: getattr(settings, name, None) for name in declared.DECLARED}
    shown: dict[str, Any] = {name: value for name, value in numbers.items() if isinstance(value, int | float)}
    shown |= {name: getattr(settings, name, None) for name in SAFE_SETTINGS}
    urls = {name: masked(os.environ.get(name) or str(getattr(settings, name, "") or "")) for name in URLS}
    ours = ("DALSTON_", "OTEL_", "DATABASE_URL", "REDIS_URL")
    is_set = sorted(name for name in os.environ if name.startswith(ours))
    return _json({"settings": shown, "urls": urls, "variables that are set": is_set})


def _status() -> tuple[str, str]:
    from dalston_queue.dashboard.overview import terminal
    from dalston_queue.dashboard.overview.read import Latest

    overview = Latest().get()
    if overview.redis is not None:
        nodes = tuple(
            replace(node, note="", engines=tuple(replace(engine, note="") for engine in node.engines))
            for node in overview.redis.nodes
        )
        overview = replace(overview, redis=replace(overview.redis, nodes=nodes))
    if overview.postgres is not None:  # the first word of an error is its type
        duties = tuple(replace(duty, error=duty.error.partition(":")[0][:60]) for duty in overview.postgres.duties)
        standing = tuple(replace(alert, text="") for alert in overview.postgres.alerts)
        overview = replace(overview, postgres=replace(overview.postgres, duties=duties, alerts=standing, tasks=()))
    document = msgspec.json.format(msgspec.json.encode(terminal.document(overview), enc_hook=str), indent=2).decode()
    return "\n".join(terminal.lines(overview)), document


def migrations() -> str:
    from django.db.migrations.loader import MigrationLoader

    loader = MigrationLoader(connection, ignore_no_migrations=True)
    applied = set(loader.applied_migrations or {})
    wanted = set(loader.disk_migrations or {})
    lines = [f"{'applied' if key in applied else 'MISSING':8} {key[0]}.{key[1]}" for key in sorted(wanted)]
    return "\n".join([*lines, *(f"newer    {key[0]}.{key[1]}" for key in sorted(applied - wanted))])


def events() -> str:
    """The last transitions, the newest first. Without their messages, which may quote a client."""
    from dalston_queue.models import TaskEvent

    columns = (
        "id", "at", "task_id", "task__job_id", "task__queue", "transition", "from_status", "to_status", "attempt",
        "deliveries", "engine_id", "cause",
    )  # fmt: skip
    return _lines(TaskEvent.objects.order_by("-id").values(*columns)[:EVENTS])


def audit() -> str:
    """The head of the chain, and which actions there were: without actors, targets and reasons."""
    from dalston_queue.audit.chain import head
    from dalston_queue.models import OperatorAction

    last = OperatorAction.objects.order_by("-id").values("id", "at", "action", "finished_at")[:ACTIONS]
    return _json({"head": str(head()), "actions": list(last)})


def alerts() -> str:
    from dalston_queue.models import AlertState

    columns = (
        "name", "subject", "severity", "value", "since", "fired_at", "ended_at", "mailed", "mail_failures", "called",
        "call_failures",
    )  # fmt: skip
    return _lines(AlertState.objects.order_by("-id").values(*columns)[:ACTIONS])


def servers() -> str:
    """Versions of Postgres and Redis, and Redis' own numbers that matter."""
    from dalston_queue.redis import probe

    def postgres() -> dict[str, Any]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT version(), pg_database_size(current_database()), pg_is_in_recovery()")
            return dict(zip(("version", "bytes", "replica"), cursor.fetchone(), strict=True))

    return _json({"postgres": _tried(postgres), "redis": _tried(lambda: [shard_facts(s) for s in probe().shards])})


_FACTS = ("redis_version", "valkey_version", "redis_mode", "uptime_in_seconds", "connected_clients", "used_memory",
          "maxmemory", "maxmemory_policy", "aof_enabled", "role", "connected_slaves")  # fmt: skip


def shard_facts(shard: Any) -> dict[str, str]:
    text = shard.command("INFO", "everything").decode()
    facts = dict(each.split(":", 1) for each in text.splitlines() if ":" in each)
    return {name: facts[name] for name in _FACTS if name in facts}


def _tried(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except Exception as error:  # noqa: BLE001 - as in _made
        return f"could not be read: {type(error).__name__}"


def log_files(state_dir: Path) -> list[Path]:
    return sorted(state_dir.glob("logs/*.log"))


def _log_part(file: Path) -> Part:
    return lambda: "\n".join(log_lines(file))


def _lines(rows: Iterable[Mapping[str, Any]]) -> str:
    return "\n".join(msgspec.json.encode(dict(row), enc_hook=str).decode() for row in rows)


def _json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2).decode()
