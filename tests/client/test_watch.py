"""Client.watch over connections that break, are refused, or send nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dalston_client import ApiError, Client, NotFound, Refused, Unavailable, Unreachable, watch
from dalston_client.sse import Message, messages
from tests.client.scripted import CUT, Answer, Server, problem, scripted

END = {"job_id": "j", "status": "completed", "progress": 1, "error": None, "completed_at": "2026-01-01T00:00:00Z"}
SSE = {"Content-Type": "text/event-stream"}


def events(*parts: tuple[str, Any, int | None], holds: bool = False) -> Answer:
    text = "retry: 2000\n\n: hello\n\n"
    for name, data, event_id in parts:
        head = f"event: {name}\n" if event_id is None else f"event: {name}\nid: {event_id}\n"
        text += f"{head}data: {json.dumps(data)}\n\n"
    return Answer(200, text.encode(), SSE, holds)


def watched(server: Server, **options: Any) -> list[tuple[str, int | None]]:
    with Client(server.url, "dal_x", retry_timeout=5.0) as client:
        return [(event.name, event.id) for event in client.watch("j", **options)]


def test_it_continues_behind_the_last_event_after_each_break() -> None:
    change = {"stage": "a"}
    with scripted(
        events(("task", change, 7), ("progress", {"status": "running"}, None)),
        CUT,
        problem(503, "database_unavailable"),
        problem(429, "rate_limited", Retry_After="0"),
        events(("task", change, 9)),
        events(("end", END, None)),
    ) as server:
        assert watched(server) == [("task", 7), ("progress", None), ("task", 9), ("end", None)]
    assert [asked.headers.get("last-event-id") for asked in server.asked] == [None, "7", "7", "7", "7", "9"]


def test_the_caller_may_name_the_last_event() -> None:
    with scripted(events(("end", END, None))) as server:
        assert watched(server, after=12) == [("end", None)]
    assert server.asked[0].headers["last-event-id"] == "12"


def test_it_gives_up_after_the_retry_timeout() -> None:
    with scripted(events(("task", {}, 1))) as server, Client(server.url, "dal_x", retry_timeout=0.3) as client:
        stream = client.watch("j")
        assert next(stream).id == 1
        server.shutdown()
        server.server_close()
        with pytest.raises(Unreachable):
            list(stream)
        server.serve_forever = lambda *_: None  # type: ignore[method-assign]


@pytest.mark.parametrize(("status", "kind"), [(404, NotFound), (403, Refused), (500, Unavailable)])
def test_a_permanent_error_is_not_retried(status: int, kind: type[ApiError]) -> None:
    with scripted(problem(status, "some_code")) as server, pytest.raises(kind):
        watched(server)
    assert len(server.asked) == 1


def test_a_revoked_token_ends_it() -> None:
    closed = ("closed", {"code": "unauthenticated", "detail": "revoked"}, None)
    with scripted(events(closed), problem(401, "token_revoked")) as server, pytest.raises(Refused) as caught:
        watched(server)
    assert caught.value.code == "token_revoked"


def job(status: str, progress: float, running: list[dict[str, Any]] | None = None) -> Answer:
    return Answer(200, {**END, "status": status, "progress": progress, "tasks": running or []})


TASK = {
    "task_id": "t",
    "stage": "a",
    "attempt": 1,
    "status": "running",
    "progress": 0.5,
    "progress_message": "half",
    "progress_known": True,
}


@pytest.mark.parametrize(
    "refusals",
    [
        [problem(503, "streams_full", Retry_After="5")],
        [events(("closed", {"code": "streams_full", "detail": ""}, None))],
        [Answer(200, b"", SSE, holds=True)] * watch.MAX_TIMEOUTS,
    ],
    ids=["refused", "closed", "held back by a proxy"],
)
def test_without_a_stream_it_polls(refusals: list[Answer], monkeypatch: pytest.MonkeyPatch) -> None:
    if len(refusals) > 1:
        monkeypatch.setattr(watch, "READ_TIMEOUT_S", 0.2)
    monkeypatch.setattr(watch, "MIN_POLL_INTERVAL_S", 0.05)
    answers = [job("running", 0), job("running", 0, [TASK]), job("running", 0, [TASK]), job("completed", 1)]
    with scripted(*refusals, *answers) as server, Client(server.url, "dal_x") as client:
        found = list(client.watch("j"))
    assert [event.name for event in found] == ["progress", "progress", "progress", "end"]
    one = {"task_id": "t", "stage": "a", "attempt": 1, "progress": 0.5, "message": "half", "progress_known": True}
    assert found[1].data == {"status": "running", "progress": 0, "tasks": [one]}
    assert found[3].data == END
    assert "wait=" in server.asked[-1].path


def test_it_ends_after_its_timeout() -> None:
    with scripted(events(("task", {}, 1), holds=True)) as server:
        assert watched(server, timeout=2) == [("task", 1)]


def test_events_are_read_however_they_are_cut() -> None:
    first = 'event: task\nid: 5\ndata: {"a": "\u2028\u0085 é"}\r\n\r\n'
    text = f": x\n\n{first}event: end\ndata: [1,\ndata: 2]\n\nid: 9\n\n".encode()
    whole = [None, Message("task", {"a": "\u2028\u0085 é"}, 5), Message("end", [1, 2], None)]
    for size in (1, 2, 3, 7, len(text)):
        assert list(messages(text[start : start + size] for start in range(0, len(text), size))) == whole
