"""/jobs/{id}/events: a job's events as server-sent events, until the job is over."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

from django.http import HttpRequest, StreamingHttpResponse
from ninja import Header, Path, Router

from dalston_queue.api.auth.bearer import needs
from dalston_queue.api.auth.principal import principal_of
from dalston_queue.api.errors.problems import ApiProblem, Code, answers
from dalston_queue.api.routes.jobs import visible_job
from dalston_queue.api.subscriptions.changes import Cursor
from dalston_queue.api.subscriptions.job_events import job_events
from dalston_queue.api.subscriptions.stream import STREAMS_FULL, event_stream
from dalston_queue.api.subscriptions.subscriber import subscriber_of
from dalston_queue.models.accounts import Scope

router = Router(tags=["jobs"])

MEDIA_TYPE = "text/event-stream"
_HEADERS = {
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",  # otherwise nginx buffers the events
}
_EVENT = {
    "type": "object",
    "properties": {"event": {"enum": ["task", "progress", "end", "closed"]}, "data": {"type": "string"}},
}
_DOCUMENTED: dict[str, Any] = {
    "responses": {
        200: {
            "description": (
                "`task`: a transition of a task, with its id; `progress`: the job and its running tasks; `end`: the "
                "job is over; `closed`: the server ends the stream. The data of each is one line of JSON."
            ),
            "content": {MEDIA_TYPE: {"schema": _EVENT}},
        }
    }
}

LastEventId = Annotated[
    int | None, Header(alias="Last-Event-ID", ge=0, lt=2**63, description="The stream continues behind this event.")
]


@router.get(
    "/jobs/{job_id}/events", auth=needs(Scope.READ), response=answers({}, 404), openapi_extra=_DOCUMENTED
)  # fmt: skip
def stream_job_events(
    request: HttpRequest, job_id: Annotated[UUID, Path()], last_event_id: LastEventId = None
) -> StreamingHttpResponse:
    """A job as server-sent events: each transition of its tasks, progress, and its end.

    Reconnect with the header `Last-Event-ID`, as browsers do: no event is missed and none comes twice.
    """
    visible_job(principal_of(request), job_id)
    subscriber = subscriber_of(request)
    if not job_events.has_room(subscriber):
        raise ApiProblem(503, Code.STREAMS_FULL, STREAMS_FULL, headers={"Retry-After": "5"})
    events = event_stream(subscriber, Cursor(job_id, last_event_id or 0))
    return StreamingHttpResponse(events, content_type=MEDIA_TYPE, headers=_HEADERS)
