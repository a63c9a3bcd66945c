"""System checks with ids. `manage.py check` runs them all, and so does every process before it starts.

E001-E019  the installation: secret, DEBUG, hosts, servers    (tag "server", only where the web app is installed)
E1xx       one per DALSTON_* setting, declared in settings.py (tag "dalston")
E2xx       relations between settings                         (tag "dalston")
W280       static files that were not collected, a warning    (tag "static": `check --deploy` and the web process)

A new check is a row of RELATIONS, or a `yield _error("E0xx", what is wrong, what to do)` in `_installation_errors`
(server only) or `_redis_errors`; the range of a setting is checked by its declaration. docs/settings.md lists the ids.
A supervisor runs the tag "dalston" only: it has no secret and no database.
"""

import re
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from django.conf import settings
from django.core import checks
from django.core.checks import CheckMessage, Error, Warning  # noqa: A004 (Django's name)
from django.core.exceptions import ImproperlyConfigured

from dalston_queue.broker import connect
from dalston_queue.broker.errors import Invalid
from dalston_site.declared import DECLARED, Declaration

MIN_SECRET = 50

# Smaller setting, larger setting, how many times larger it must be, check id, why.
RELATIONS = [
    ("DALSTON_HEARTBEAT_S", "DALSTON_DEAD_AFTER_S", 2, "E201", "one lost beat must not count as a death"),
    ("DALSTON_RECOVERY_INTERVAL_S", "DALSTON_DEAD_AFTER_S", 1, "E202", "a death is judged over several polls"),
    ("DALSTON_BACKOFF_BASE_S", "DALSTON_BACKOFF_CAP_HIGH_S", 1, "E203", "the cap bounds the first delay too"),
    ("DALSTON_BACKOFF_BASE_S", "DALSTON_BACKOFF_CAP_MEDIUM_S", 1, "E334", "the cap bounds the first delay too"),
    ("DALSTON_BACKOFF_BASE_S", "DALSTON_BACKOFF_CAP_LOW_S", 1, "E335", "the cap bounds the first delay too"),
    ("DALSTON_TIMEOUT_HIGH_S", "DALSTON_TIMEOUT_MAX_S", 1, "E204", "growth never shortens a timeout"),
    ("DALSTON_TIMEOUT_MEDIUM_S", "DALSTON_TIMEOUT_MAX_S", 1, "E205", "growth never shortens a timeout"),
    ("DALSTON_TIMEOUT_LOW_S", "DALSTON_TIMEOUT_MAX_S", 1, "E206", "growth never shortens a timeout"),
    ("DALSTON_BACKPRESSURE_WAITING", "DALSTON_BACKPRESSURE_HIGH_ONLY", 1, "E207", "each limit is stricter"),
    ("DALSTON_BACKPRESSURE_HIGH_ONLY", "DALSTON_BACKPRESSURE_LISTED_ONLY", 1, "E208", "each limit is stricter"),
    ("DALSTON_BACKPRESSURE_LISTED_ONLY", "DALSTON_BACKPRESSURE_PROJECT", 1, "E321", "one queue may be full"),
    ("DALSTON_RATE_LIMITED_PER_MINUTE", "DALSTON_RATE_LIMITED_PER_HOUR", 1, "E210", "an hour holds its minutes"),
    ("DALSTON_MAX_DELIVERIES", "DALSTON_MAX_DELIVERIES_NODE_LOST", 1, "E211", "a lost node is not the task's fault"),
    ("DALSTON_WEBHOOK_BACKOFF_BASE_S", "DALSTON_WEBHOOK_BACKOFF_CAP_S", 1, "E213", "the cap bounds the first delay"),
    ("DALSTON_MAX_QUEUES_PER_PROJECT", "DALSTON_MAX_QUEUES", 1, "E320", "a project has a part of all queues"),
    ("DALSTON_STALE_THRESHOLD_MS", "DALSTON_ABSOLUTE_TIMEOUT_MS", 1, "E212", "stale tasks are reclaimed before"),
]  # fmt: skip


def register() -> None:
    checks.register(check_values, "dalston")
    checks.register(check_relations, "dalston")
    checks.register(check_redis, "dalston")
    if settings.DALSTON_SERVER_INSTALL:
        checks.register(check_installation, "server")
        checks.register(check_sign_in, "server")
        checks.register(check_static_files, "static", deploy=True)


def check_values(**_: Any) -> list[CheckMessage]:
    return [
        _error(it.check_id, f"{it.name} is {getattr(settings, it.name)!r}.", f"Expected {it.expected}. {it.means}")
        for it in DECLARED.values()
        if not _allowed(it, getattr(settings, it.name))
    ]


def check_relations(**_: Any) -> list[CheckMessage]:
    return list(_broken_relations())


def check_redis(**_: Any) -> list[CheckMessage]:
    if settings.REDIS_URL:
        return list(_redis_errors())
    if settings.DALSTON_DEV:
        return []
    return [
        _error("E001", "REDIS_URL is not set.", "Set it to redis://[:password@]host:port/0; every process needs it.")
    ]


def check_installation(**_: Any) -> list[CheckMessage]:
    """Outside development an open installation doesn't start."""
    if settings.DALSTON_DEV:
        return []
    return list(_installation_errors())


def check_sign_in(**_: Any) -> list[CheckMessage]:
    """Also in development: without them no user could sign in."""
    return list(_sign_in_errors())


def check_static_files(**_: Any) -> list[CheckMessage]:
    from dalston_site import static_files  # loads whitenoise, which a node has not

    problem = "" if settings.DALSTON_DEV else static_files.problem()
    if not problem:
        return []
    hint = "Run manage.py collectstatic --noinput. Until then they are served uncompressed from the package."
    return [Warning(f"Of the static files, {problem}.", hint=hint, id="dalston.W280")]


def _installation_errors() -> Iterator[CheckMessage]:
    secret = _secret()
    if len(secret) < MIN_SECRET or secret.startswith("django-insecure-") or len(set(secret)) < 5:
        yield _error(
            "E002",
            f"DALSTON_SECRET_KEY is missing or weak ({len(secret)} characters).",
            f"Set it to at least {MIN_SECRET} random characters, "
            "for example from: python3 -c 'import secrets; print(secrets.token_urlsafe(50))'",
        )
    if settings.DEBUG:
        yield _error("E003", "DALSTON_DEBUG is on outside development.", "Unset DALSTON_DEBUG: it shows secrets.")
    if not settings.ALLOWED_HOSTS:
        yield _error(
            "E004", "DALSTON_ALLOWED_HOSTS is not set.", "Name the hosts of the dashboard: dalston.example.com"
        )
    elif open_hosts := [host for host in settings.ALLOWED_HOSTS if host in {"*", "."}]:
        yield _error(
            "E005", f"DALSTON_ALLOWED_HOSTS holds {open_hosts[0]!r}.", "Name each host instead of all of them."
        )
    if settings.DATABASES["default"]["ENGINE"] == "django.db.backends.dummy":
        yield _error(
            "E006",
            "DATABASE_URL is not set.",
            "Set it to postgres://user:password@host:port/database. Only `runsupervisor` runs without it.",
        )


def _sign_in_errors() -> Iterator[CheckMessage]:
    from dalston_queue.accounts.identities import ROLES  # loads Django's users, which a node has not

    if not settings.DALSTON_OIDC_ISSUER:
        if not settings.DALSTON_LOCAL_LOGIN:
            hint = "Set DALSTON_OIDC_ISSUER, or DALSTON_LOCAL_LOGIN=1."
            yield _error("E007", "DALSTON_LOCAL_LOGIN is 0 and there is no provider: no user could sign in.", hint)
        return
    if find_spec("authlib") is None or find_spec("requests") is None:
        hint = "Install the extra oidc: dalston[server,oidc]. The lock of the server has it."
        yield _error("E008", "DALSTON_OIDC_ISSUER is set, and Authlib is not installed.", hint)
    if not settings.DALSTON_OIDC_CLIENT_ID:
        hint = "Register this installation at the provider; docs/operate/sign-in.md says how."
        yield _error("E009", "DALSTON_OIDC_ISSUER is set without DALSTON_OIDC_CLIENT_ID.", hint)
    unknown = sorted(set(settings.DALSTON_OIDC_ROLES.values()) - set(ROLES))
    if unknown or not settings.DALSTON_OIDC_ROLES:
        problem = f"names no role: {unknown[0]!r}" if unknown else "is not set: no user would have a role"
        hint = f"Pairs of a group and one of {', '.join(ROLES)}, such as gpu-ops=operator,staff=viewer."
        yield _error("E010", f"DALSTON_OIDC_ROLES {problem}.", hint)


def _redis_errors() -> Iterator[CheckMessage]:
    try:
        connect(settings.REDIS_URL, cluster=settings.DALSTON_REDIS_CLUSTER, shards=settings.DALSTON_REDIS_URLS).close()
    except Invalid as error:
        yield _error("E103", f"{error}.", "See DALSTON_REDIS_URLS and REDIS_URL in docs/settings.md.")


def _secret() -> str:
    try:
        return settings.SECRET_KEY
    except ImproperlyConfigured:  # Django raises it for an empty key
        return ""


def _broken_relations() -> Iterator[CheckMessage]:
    for small_name, large_name, factor, check_id, why in RELATIONS:
        small, large = getattr(settings, small_name), getattr(settings, large_name)
        if large < small * factor:
            least = f"{factor} x {small_name}" if factor != 1 else small_name
            yield _error(
                check_id, f"{large_name} ({large:g}) is less than {least} ({small * factor:g}).", f"Raise it: {why}."
            )


def _allowed(declaration: Declaration, value: Any) -> bool:
    if declaration.pattern is not None:
        return re.fullmatch(declaration.pattern, value) is not None
    low, high = declaration.low, declaration.high
    return (low is None or value >= low) and (high is None or value <= high)


def _error(check_id: str, message: str, hint: str) -> CheckMessage:
    return Error(message, hint=hint, id=f"dalston.{check_id}")
