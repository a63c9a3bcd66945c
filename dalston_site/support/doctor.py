"""Checks of a server: one finding per subject, each with what to do about it."""

import os
import stat
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from django.conf import settings
from django.core import checks
from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor

from dalston_queue.broker import Broker
from dalston_site import static_files as collected
from supervisor.findings import Finding, Grade, artifacts, clock, redis

MIN_POSTGRES = 15
SLOW_POSTGRES_S = 0.05
FREE_CONNECTIONS = 20
"""What a start of one more of each process takes: a pool of 10, and some threads."""


def examine(make_broker: Callable[[], Broker]) -> Iterator[Finding]:
    """All checks, the most important first. Never raises."""
    yield from configuration()
    yield from secrets()
    yield from postgres()
    yield from redis(make_broker)
    yield artifacts(settings.DALSTON_ARTIFACTS_URL)
    yield static_files()
    yield from sign_in()


def configuration() -> Iterator[Finding]:
    found = checks.run_checks(tags=["dalston", "server"])
    if settings.DALSTON_DEV:
        text = "DALSTON_DEV is on: the secret, the hosts and the servers are not checked; unset it in production"
        yield Finding(Grade.DEGRADED, "settings", text)
    for problem in found:
        yield Finding(Grade.BROKEN, "settings", f"{problem.msg} {problem.hint or ''} ({problem.id})".strip())
    if not found:
        yield Finding(Grade.OK, "settings", "each within its range")


def secrets(folder: Path = Path("/etc/dalston")) -> Iterator[Finding]:
    """Who may read the files with secrets, and whether the servers ask for a password."""
    found = False
    try:
        files = sorted(folder.glob("*.env"))
    except OSError:  # not for us to read, nor for others
        files = []
    for file in files:
        mode = stat.S_IMODE(file.stat().st_mode)
        if mode & 0o077:
            found = True
            text = f"{file} has mode {mode:o}: every user it names can read the secrets; chmod 600 {file}"
            yield Finding(Grade.DEGRADED, "secrets", text)
    for name, url in (("DATABASE_URL", os.environ.get("DATABASE_URL", "")), ("REDIS_URL", settings.REDIS_URL)):
        if _is_open(url):
            found = True
            text = f"{name} has no password, and its server is not on this machine: set one there and in the URL"
            yield Finding(Grade.DEGRADED, "secrets", text)
    if not found:
        yield Finding(Grade.OK, "secrets", "private, and each server asks for a password or is on this machine")


def _is_open(url: str) -> bool:
    parts = urlsplit(url)
    if not parts.netloc or parts.password or parts.scheme == "unix" or "sslcert=" in parts.query:
        return False
    hosts = parts.netloc.rpartition("@")[2].split(",")
    return not all(_is_loopback(host.rpartition(":")[0] or host) for host in hosts)


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def postgres() -> Iterator[Finding]:
    try:
        connection.ensure_connection()
        with connection.cursor() as cursor:
            start = time.monotonic()
            cursor.execute(
                "SELECT current_setting('server_version_num')::int / 10000, pg_is_in_recovery(),"
                " extract(epoch FROM now()),"
                " current_setting('max_connections')::int - (SELECT count(*) FROM pg_stat_activity)"
            )
            seconds = time.monotonic() - start
            version, replica, now, free = cursor.fetchone()
    except Error as error:
        text = f"{str(error).strip()}: nothing works without it; check DATABASE_URL"
        yield Finding(Grade.BROKEN, "postgres", " ".join(text.split()))
        return
    grade = Grade.DEGRADED if seconds > SLOW_POSTGRES_S else Grade.OK
    yield Finding(
        grade, "postgres", f"version {version}, answers in {seconds * 1000:.1f} ms, {free} connections are free"
    )
    if version < MIN_POSTGRES:
        yield Finding(Grade.BROKEN, "postgres", f"is version {version}: upgrade it to {MIN_POSTGRES} or newer")
    if replica:
        yield Finding(Grade.BROKEN, "postgres", "is a replica and can't be written: name the primary in DATABASE_URL")
    if free < FREE_CONNECTIONS:
        text = f"only {free} more connections fit: raise max_connections, or lower DALSTON_DB_POOL_SIZE"
        yield Finding(Grade.DEGRADED, "postgres", text)
    yield clock("Postgres", float(now) - time.time())
    yield migrations()


def migrations() -> Finding:
    try:
        executor = MigrationExecutor(connection)
        missing = [
            f"{step.app_label}.{step.name}" for step, _ in executor.migration_plan(executor.loader.graph.leaf_nodes())
        ]
        known = executor.loader.disk_migrations.keys()
        newer = sorted(".".join(key) for key in executor.loader.applied_migrations if key not in known)
    except Error as error:
        return Finding(Grade.BROKEN, "migrations", f"can't be read: {error}")
    if missing:
        text = f"{len(missing)} are missing ({missing[0]} is the first): run manage.py migrate"
        return Finding(Grade.BROKEN, "migrations", text)
    if newer:
        text = f"the database has {newer[-1]}, which this version does not know: it was made by a newer one"
        return Finding(Grade.DEGRADED, "migrations", text)
    return Finding(Grade.OK, "migrations", "all applied")


def static_files() -> Finding:
    if settings.DALSTON_DEV:
        return Finding(Grade.OK, "static files", "served from the source in development")
    problem = collected.problem()
    if problem:
        text = f"{problem}: run manage.py collectstatic --noinput"
        return Finding(Grade.DEGRADED, "static files", text)
    return Finding(Grade.OK, "static files", f"{len(collected.names())} in {settings.STATIC_ROOT}")


def sign_in() -> Iterator[Finding]:
    """Whether the provider can be asked, if there is one."""
    if not settings.DALSTON_OIDC_ISSUER or find_spec("authlib") is None:  # which the settings' check says
        return
    from dalston_queue.dashboard.sign_in.provider import BadAnswer, Provider, Unreachable

    grade = Grade.DEGRADED if settings.DALSTON_LOCAL_LOGIN else Grade.BROKEN
    try:
        Provider().check()
    except Unreachable as error:
        text = "check DALSTON_OIDC_ISSUER, HTTPS_PROXY, and for a CA of your own REQUESTS_CA_BUNDLE"
        yield Finding(grade, "sign-in", f"{settings.DALSTON_OIDC_ISSUER} can't be asked ({error}): {text}")
    except BadAnswer as error:
        yield Finding(grade, "sign-in", f"{error}: check DALSTON_OIDC_ISSUER")
    else:
        yield Finding(Grade.OK, "sign-in", f"{settings.DALSTON_OIDC_ISSUER} answers, and its keys can be read")
