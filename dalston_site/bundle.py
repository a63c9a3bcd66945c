"""The support bundle: what a stranger needs to help with this installation, and nothing that is a client's or secret.

Deny by default: a part is made of named columns, named settings and our own sentences. Free text is left out wherever
an engine, a client or an operator may have written it. Whatever still equals a secret of this process is struck out.
"""

from __future__ import annotations

import io
import json
import os
import platform
import re
import sys
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
from django.conf import settings
from django.db import connection

from dalston_queue.jobs.lifecycle.transition_log import JOB_EVENTS, TASK_EVENTS
from dalston_site import declared
from dalston_site.version import installed_version
from supervisor.findings import Finding

MAX_PART_BYTES = 1 << 20
MAX_LOG_BYTES = 4 << 20
"""Of each log file, from its end, as it is read."""
EVENTS = 1000
ACTIONS = 200

Part = Callable[[], str]

SAFE_SETTINGS = (
    "ALLOWED_HOSTS", "DALSTON_DEV", "DALSTON_HTTPS", "DALSTON_METRICS_ADDRESS", "DALSTON_REDIS_CLUSTER",
    "DALSTON_REDIS_PREFIX", "DALSTON_RETRY_BUDGETS", "DALSTON_TOKEN_RATE_PRESET", "DEBUG", "LOG_LEVEL", "TIME_ZONE",
)  # fmt: skip
"""Beside the numbers, which can't be secret."""
URLS = ("DATABASE_URL", "REDIS_URL", "DALSTON_ARTIFACTS_URL")
_URL = re.compile(
    r"(?P<scheme>[a-z0-9+]+)://(?:(?P<login>[^@/?#]*)@)?"
    r"(?P<hosts>(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])?(?::\d{1,5})?(?:,(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?)*)"
    r"(?P<path>/[A-Za-z0-9._/-]*)?(?P<options>\?[^@]*)?"
)
_SECRET_NAME = re.compile(r"SECRET|TOKEN|PASS|KEY|HEADER|CREDENTIAL|AUTH|DSN")
_LOG_EVENTS = frozenset(
    {*TASK_EVENTS.values(), *JOB_EVENTS.values()}
    | {"task_claimed", "claimed_stale_task", "task_settled", "result_refused", "task_reclaimed", "task_exhausted"}
    | {"engine_unhealthy", "engine_healthy"}
)
_LOG_FIELDS = {
    "timestamp": re.compile(r"[0-9T:.+Z-]{1,40}"),
    "level": re.compile(r"[a-z]{1,10}"),
    "logger": re.compile(r"[A-Za-z0-9_.]{1,80}"),
    **dict.fromkeys(("trace_id", "job_id", "task_id"), re.compile(r"[0-9a-f-]{1,36}")),
    **dict.fromkeys(("queue", "cause", "outcome"), re.compile(r"[a-z][a-z0-9_-]{0,40}")),
    **dict.fromkeys(("attempt", "delivery_count", "failures_in_a_row"), re.compile(r"\d{1,9}")),
    "engine_id": re.compile(r"[A-Za-z0-9._-]{1,200}"),
    "error_type": re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,80}"),
}


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


def write(path: Path, wanted: Mapping[str, Part]) -> list[tuple[str, int]]:
    """Writes the archive, for its owner only; never over another file. Returns its files and their sizes."""
    known = secrets()
    made: list[tuple[str, int]] = []
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(fd, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
            for name, part in {"README.txt": lambda: readme(wanted), **wanted}.items():
                content = bounded(struck(_made(part), known)).encode()
                info = tarfile.TarInfo(f"dalston-support/{name}")
                info.size, info.mode, info.mtime = len(content), 0o600, int(time.time())
                archive.addfile(info, io.BytesIO(content))
                made.append((name, len(content)))
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return made


def _made(part: Part) -> str:
    """A part that fails is a line in its file: the others are wanted most when something is broken."""
    try:
        return part().rstrip("\n") + "\n"
    except Exception as error:  # noqa: BLE001 - its text may quote data
        return f"could not be read: {type(error).__name__}\n"


def readme(wanted: Iterable[str]) -> str:
    return (
        f"Support bundle of Dalston {installed_version()}, made at {datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC.\n\n"
        "It has numbers, states, ids and our own sentences. It has no parameters, results, messages of errors,\n"
        "reasons of operators, tokens or passwords. It does name queues, nodes, hosts and installed packages:\n"
        "read it before you send it.\n\n" + "".join(f"{name}\n" for name in wanted)
    )


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


def masked(url: str) -> str:
    """Scheme, hosts and path; without login and options. What is not plainly an URL is not shown at all."""
    if not url:
        return ""
    found = _URL.fullmatch(url)
    if found is None or not (found["hosts"] or found["path"]):
        return "set, not shown"
    login = "***@" if found["login"] is not None else ""
    options = "?***" if found["options"] else ""
    return f"{found['scheme']}://{login}{found['hosts']}{found['path'] or ''}{options}"


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


def log_lines(file: Path) -> Iterator[str]:
    """Our own lines about tasks, of fields whose form is known. An author's lines are counted: they may be anything."""
    with file.open("rb") as content:
        content.seek(max(0, file.stat().st_size - MAX_LOG_BYTES))
        lines = content.read().splitlines()
    others = 0
    for each in lines:
        kept = _own(each)
        if kept is None:
            others += 1
        else:
            yield json.dumps(kept)
    yield f"{others} other lines are left out"


_READABLE = re.compile(r"\[(?P<level>\w+) *\] (?P<event>\w+) +\[(?P<logger>[\w.]+)\] (?P<fields>.*)")


def _readable(line: bytes) -> dict[str, str] | None:
    """A line as development writes it (task_log.plain_lines)."""
    found = _READABLE.search(line.decode(errors="replace"))
    if found is None:
        return None
    return {**dict(re.findall(r"(\w+)=(\S+)", found["fields"])), **found.groupdict()}


def _own(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line[line.index(b"{") :])
    except ValueError:
        found = _readable(line)
    if not isinstance(found, dict) or found.get("event") not in _LOG_EVENTS:
        return None
    return {
        "event": found["event"],
        **{
            name: found[name]
            for name, form in _LOG_FIELDS.items()
            if name in found and form.fullmatch(str(found[name]))
        },
    }


def secrets() -> list[str]:
    """Every secret that this process knows, the longest first."""
    found = {value for name, value in os.environ.items() if _SECRET_NAME.search(name)}
    found |= {settings.SECRET_KEY, getattr(settings, "EMAIL_HOST_PASSWORD", "")}
    for url in (value for name, value in os.environ.items() if "URL" in name):
        for login in re.findall(r"//([^@\s,]*)@", url):
            password = login.partition(":")[2]
            found |= {password, unquote(password)}
    database = settings.DATABASES["default"].get("PASSWORD", "")
    return sorted((each for each in {*found, database} if len(each) >= 4), key=len, reverse=True)


def struck(text: str, known: Iterable[str]) -> str:
    for secret in known:
        text = text.replace(secret, "***").replace(json.dumps(secret)[1:-1], "***")
    return text


def bounded(text: str) -> str:
    """The first megabyte; a log is about its end."""
    if len(text) <= MAX_PART_BYTES:
        return text
    return f"{text[:MAX_PART_BYTES]}\n… {len(text) - MAX_PART_BYTES} more characters are left out\n"


def _lines(rows: Iterable[Mapping[str, Any]]) -> str:
    return "\n".join(msgspec.json.encode(dict(row), enc_hook=str).decode() for row in rows)


def _json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2).decode()
