"""Sets, changes and removes limits, and the weights of projects. The row and its audit entry are one transaction.

Setting what is set already changes nothing and writes no audit entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction
from django.db.models import QuerySet

from dalston_queue.audit.record import audited
from dalston_queue.broker.protocol.keys import NAME
from dalston_queue.jobs.errors import InvalidJob, InvalidLimit, NoSuchProject
from dalston_queue.jobs.lifecycle.dag import check_concurrency_key
from dalston_queue.models import Limit, Project
from dalston_queue.models.accounts import MAX_WEIGHT
from dalston_queue.models.order import EACH_KEY

NUMBERS = ("max_in_flight", "starts_per_minute")
MAX_NUMBER = 1_000_000
"""Of tasks in flight, and of starts per minute."""

# Of two that set the first limit of a scope at the same moment, the second must find a row that it can compare with.
_LOCK = "SELECT pg_advisory_xact_lock(hashtext('dalston_limit'))"


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitScope:
    """What a limit is for: a queue, a project, one of its keys or each of them (`*`), or those within a queue."""

    queue: str = ""
    project: str = ""  # its name
    concurrency_key: str = ""

    def checked(self) -> Project | None:
        """The project that it names. Raises InvalidLimit."""
        if self.queue and not NAME.fullmatch(self.queue):
            raise InvalidLimit("queue", f"no queue is named {self.queue[:50]!r}: a name matches {NAME.pattern}")
        if not self.queue and not self.project:
            raise InvalidLimit("queue", "name a queue, or a project, or both")
        if self.concurrency_key and not self.project:
            raise InvalidLimit("project", "a concurrency key is of a project: name the project, too")
        if self.concurrency_key != EACH_KEY:
            try:
                check_concurrency_key(self.concurrency_key, "the limit")
            except InvalidJob as error:
                raise InvalidLimit("concurrency_key", f"{error}; alone it stands for each key") from None
        return named_project(self.project) if self.project else None

    def rows(self, project: Project | None) -> QuerySet[Limit]:
        """The limit of exactly this scope, if there is one."""
        return Limit.objects.filter(queue=self.queue, project=project, concurrency_key=self.concurrency_key)


@dataclass(frozen=True, slots=True)
class SetLimit:
    limit: Limit
    created: bool
    changed: bool  # False: it was like this before


def named_project(name: str) -> Project:
    """Raises NoSuchProject."""
    project = Project.objects.filter(name=name).first()
    if project is None:
        raise NoSuchProject("project", f"there is no project {name[:80]!r}")
    return project


def check_numbers(scope: LimitScope, max_in_flight: int | None, starts_per_minute: int | None) -> None:
    """Raises InvalidLimit."""
    if max_in_flight is None and starts_per_minute is None:
        raise InvalidLimit("max_in_flight", "a limit needs max_in_flight, starts_per_minute, or both")
    if max_in_flight is not None and not 0 <= max_in_flight <= MAX_NUMBER:
        raise InvalidLimit("max_in_flight", f"it is from 0, which stops all of it, to {MAX_NUMBER}")
    if starts_per_minute is not None and not 1 <= starts_per_minute <= MAX_NUMBER:
        raise InvalidLimit("starts_per_minute", f"it is from 1 to {MAX_NUMBER}; max_in_flight 0 stops all of it")
    if starts_per_minute is not None and scope.concurrency_key == EACH_KEY:
        raise InvalidLimit("starts_per_minute", "each key for itself can be limited in flight only; name one key")


@transaction.atomic
def set_limit(
    scope: LimitScope, max_in_flight: int | None, starts_per_minute: int | None, *, reason: str = "", **signature: Any
) -> SetLimit:
    """Make the limit of this scope, or change it to these numbers; None is no limit. `signature` is for the audit
    trail. Raises InvalidLimit."""
    project = scope.checked()
    check_numbers(scope, max_in_flight, starts_per_minute)
    _lock()
    limit = scope.rows(project).select_for_update().first()
    if limit is not None and (limit.max_in_flight, limit.starts_per_minute) == (max_in_flight, starts_per_minute):
        return SetLimit(limit, created=False, changed=False)
    before = None if limit is None else limit_numbers(limit)
    limit = limit or Limit(queue=scope.queue, project=project, concurrency_key=scope.concurrency_key)
    with audited("limit.set", limit.scope, reason=reason, before=before, **signature) as row:
        limit.max_in_flight, limit.starts_per_minute = max_in_flight, starts_per_minute
        # Not its token bucket, which the refills write.
        limit.save(update_fields=None if before is None else NUMBERS)
        row.after = limit_numbers(limit)
    return SetLimit(limit, created=before is None, changed=True)


@transaction.atomic
def remove_limit(limit_id: int, *, reason: str = "", **signature: Any) -> Limit | None:
    """Remove a limit and return it; None if it is gone."""
    _lock()
    limit = Limit.objects.select_for_update().filter(pk=limit_id).first()
    if limit is None:
        return None
    with audited("limit.remove", limit.scope, reason=reason, before=limit_numbers(limit), **signature) as row:
        Limit.objects.filter(pk=limit_id).delete()
        row.after = {"removed": True}
    return limit


@transaction.atomic
def set_weight(project: Project, weight: int, *, reason: str = "", **signature: Any) -> bool:
    """Give a project this weight; False if it had it before. Raises InvalidLimit."""
    if not 1 <= weight <= MAX_WEIGHT:
        raise InvalidLimit("weight", f"it is from 1 to {MAX_WEIGHT}")
    was = Project.objects.select_for_update().get(pk=project.pk).weight
    if was == weight:
        return False
    with audited("project.weight", project.name, reason=reason, before={"weight": was}, **signature) as row:
        Project.objects.filter(pk=project.pk).update(weight=weight)
        row.after = {"weight": weight}
    project.weight = weight
    return True


def limit_numbers(limit: Limit) -> dict[str, int | None]:
    return {name: getattr(limit, name) for name in NUMBERS}


def _lock() -> None:
    with connection.cursor() as cursor:
        cursor.execute(_LOCK)
