"""/limits and /projects/{project}/weight: what may be in flight and start, and the projects' shares. For operators."""

from __future__ import annotations

from typing import Annotated, Any

from django.http import HttpRequest
from django.utils import timezone
from ninja import Body, Path, Query, Router, Status

from dalston_queue.api.auth.bearer import needs, sees_all_projects
from dalston_queue.api.auth.principal import principal_of
from dalston_queue.api.errors.problems import ApiProblem, Code, answers
from dalston_queue.api.schemas.base import Limit as PageSize
from dalston_queue.api.schemas.base import Reason
from dalston_queue.api.schemas.limits import (
    LimitIn,
    LimitOut,
    LimitPage,
    LimitRemovedOut,
    LimitSetOut,
    ProjectName,
    ProjectWord,
    QueueWord,
    WeightIn,
    WeightOut,
    WeightSetOut,
    limit_fields,
)
from dalston_queue.jobs.errors import InvalidLimit, NoSuchProject, sentence
from dalston_queue.jobs.operator.limits import named_project, remove_limit, set_limit, set_weight
from dalston_queue.jobs.queries.limits import by_project, in_flight_by_queue, read_usage
from dalston_queue.models import Limit, Project
from dalston_queue.models.accounts import Scope

router = Router(tags=["limits"])


@router.get("/limits", auth=sees_all_projects(), response=answers({200: LimitPage}))
def list_limits(
    request: HttpRequest,
    queue: QueueWord = None,
    project: ProjectWord = None,
    limit: PageSize = 50,
    cursor: Annotated[int | None, Query(ge=1, le=2**63 - 1, description="`next_cursor` of the page before.")] = None,
) -> LimitPage:
    """Limits, oldest first, each with what is used of it and what waits behind it."""
    wanted = {"queue": queue, "project__name": project, "pk__gt": cursor}
    rows = Limit.objects.select_related("project").order_by("id")
    found = list(rows.filter(**{name: value for name, value in wanted.items() if value is not None})[: limit + 1])
    shown, more = found[:limit], len(found) > limit
    items = [LimitOut(**limit_fields(usage)) for usage in read_usage(shown, timezone.now())]
    return LimitPage(items=items, next_cursor=shown[-1].pk if more else None)


@router.put("/limits", auth=needs(Scope.OPERATE), response=answers({200: LimitSetOut, 201: LimitSetOut}, 400, 404))
def put_limit(request: HttpRequest, body: Annotated[LimitIn, Body()]) -> Status[LimitSetOut]:
    """Make the limit of a scope, or change it. It is then what this request says: a number left out is no limit."""
    try:
        done = set_limit(
            body.scope(),
            body.max_in_flight,
            body.starts_per_minute,
            reason=body.reason,
            **principal_of(request).signature(),
        )
    except InvalidLimit as error:
        raise _refused(error) from None
    [usage] = read_usage([done.limit], timezone.now())
    return Status(201 if done.created else 200, LimitSetOut(**limit_fields(usage), changed=done.changed))


@router.delete("/limits/{limit_id}", auth=needs(Scope.OPERATE), response=answers({200: LimitRemovedOut}, 404))
def delete_limit(
    request: HttpRequest, limit_id: Annotated[int, Path(ge=1, le=2**63 - 1)], reason: Reason = ""
) -> LimitRemovedOut:
    """Remove a limit: what it held back is queued within a second."""
    removed = remove_limit(limit_id, reason=reason, **principal_of(request).signature())
    if removed is None:
        raise ApiProblem(404, Code.NOT_FOUND, f"There is no limit {limit_id}.")
    return LimitRemovedOut(limit_id=limit_id, scope=removed.scope)


@router.get("/projects/{project}/weight", auth=sees_all_projects(), response=answers({200: WeightOut}, 404))
def read_weight(request: HttpRequest, project: Annotated[ProjectName, Path()]) -> WeightOut:
    """The weight of a project, and its share of what is in flight now."""
    return WeightOut(**_weight(_project(project)))


@router.put("/projects/{project}/weight", auth=needs(Scope.OPERATE), response=answers({200: WeightSetOut}, 400, 404))
def put_weight(
    request: HttpRequest, project: Annotated[ProjectName, Path()], body: Annotated[WeightIn, Body()]
) -> WeightSetOut:
    """Give a project another weight. It counts from the next task on that is queued."""
    row = _project(project)
    changed = set_weight(row, body.weight, reason=body.reason, **principal_of(request).signature())
    return WeightSetOut(**_weight(row), changed=changed)


def _project(name: str) -> Project:
    try:
        return named_project(name)
    except NoSuchProject as error:
        raise ApiProblem(404, Code.NOT_FOUND, sentence(error)) from None


def _weight(project: Project) -> dict[str, Any]:
    flying = [by_project(groups) for groups in in_flight_by_queue().values()]
    return {
        "project": project.name,
        "weight": project.weight,
        "in_flight": sum(counts[project.pk] for counts in flying),
        "all_in_flight": sum(counts.total() for counts in flying),
    }


def _refused(error: InvalidLimit) -> ApiProblem:
    if isinstance(error, NoSuchProject):
        return ApiProblem(404, Code.NOT_FOUND, f"{error.field}: {error}")
    errors = [{"field": error.field, "message": str(error), "kind": "value_error"}]
    return ApiProblem(422, Code.INVALID, f"{error.field}: {error}", errors=errors)
