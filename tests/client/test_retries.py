"""Retries of the client: which calls are repeated, when, and that a repeated submission is one submission."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from dalston_client import (
    ApiError,
    Busy,
    Client,
    Conflict,
    Invalid,
    NotConfigured,
    NotFound,
    Refused,
    Unavailable,
    Unreachable,
    config,
)
from dalston_client.errors import DalstonError
from dalston_client.retry import backoff, may_retry
from tests.client.scripted import CUT, Answer, Server, problem, scripted
from tests.support import reserve_port

TOKEN = "dal_a-secret"
TASK = {"task_id": "t", "job_id": "j"}


def client(server: Server, retry_timeout: float = 5.0) -> Client:
    return Client(server.url, TOKEN, retry_timeout=retry_timeout)


def test_a_submission_is_sent_again_under_the_same_key() -> None:
    retried: list[str] = []
    with scripted(CUT, problem(503, "database_unavailable"), Answer(201, TASK)) as server:
        with Client(server.url, TOKEN, on_retry=lambda error, _: retried.append(type(error).__name__)) as dalston:
            assert dalston.submit_task("echo", parameters={"a": 1})["job_id"] == "j"
        keys = {asked.headers["idempotency-key"] for asked in server.asked}
    assert len(server.asked) == 3 and len(keys) == 1 and len(keys.pop()) == 32
    assert server.asked[2].body == {"task_type": "echo", "parameters": {"a": 1}, "priority": "medium"}
    assert retried == ["Unreachable", "Unavailable"]


def test_two_submissions_have_two_keys_and_the_callers_own_is_kept() -> None:
    with scripted(*[Answer(201, TASK)] * 3) as server, client(server) as dalston:
        for key in (None, None, "mine"):
            dalston.submit_job("two", stages=[{"stage": "a"}], idempotency_key=key)
        keys = [asked.headers["idempotency-key"] for asked in server.asked]
    assert len(set(keys)) == 3 and keys[2] == "mine"


def test_a_batch_is_sent_a_thousand_at_a_time_and_each_job_has_a_key() -> None:
    item = {"job_id": "j", "task_ids": [], "created": True, "code": None, "detail": None}
    parts = [{"accepted": size, "refused": 0, "items": [item] * size} for size in (1000, 1)]
    with scripted(Answer(200, parts[0]), CUT, Answer(200, parts[1])) as server, client(server) as dalston:
        whole = dalston.submit_batch({"name": str(n), "stages": [{"stage": "a"}]} for n in range(1001))
    assert (whole["accepted"], len(whole["items"])) == (1001, 1001)
    sent = [job["idempotency_key"] for asked in server.asked[:2] for job in asked.body["jobs"]]
    assert len(set(sent)) == 1001
    assert server.asked[1].body == server.asked[2].body


def test_retry_after_is_respected() -> None:
    with scripted(problem(429, "rate_limited", Retry_After="1"), Answer(200, [])) as server, client(server) as dalston:
        started = time.monotonic()
        assert dalston.nodes() == []
        assert time.monotonic() - started >= 1


def test_it_gives_up_at_once_when_retry_after_is_past_the_timeout() -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(minutes=5), usegmt=True)
    for value in ("300", later):
        with scripted(problem(429, "queue_full", Retry_After=value)) as server, client(server) as dalston:
            started = time.monotonic()
            with pytest.raises(Busy) as caught:
                dalston.stats()
            assert time.monotonic() - started < 5, "not even as long as its retry timeout"
            assert 200 < (caught.value.retry_after or 0) <= 300


def test_a_call_that_is_not_safe_to_repeat_is_sent_once() -> None:
    with scripted(CUT) as server, client(server) as dalston, pytest.raises(Unreachable):
        dalston.replay_in_batch(filters={"queue": "echo"}, rate_per_minute=5)
    busy = problem(503, "database_unavailable")
    with scripted(busy) as server, client(server) as dalston, pytest.raises(Unavailable):
        dalston.replay_many(filters={"queue": "echo"})
    with scripted(problem(500, "internal")) as server, client(server) as dalston, pytest.raises(Unavailable):
        dalston.nodes()


def test_a_repeated_command_to_a_node_has_the_same_id() -> None:
    done = {"command_id": "c", "state": "done", "command": "drain", "message": ""}
    with scripted(CUT, Answer(200, done)) as server, client(server) as dalston:
        assert dalston.command("node-1", "drain")["state"] == "done"
    assert server.asked[0].body["command_id"] == server.asked[1].body["command_id"]


def test_an_unreachable_server_is_an_error_after_the_retry_timeout() -> None:
    with Client(f"http://127.0.0.1:{reserve_port()}", TOKEN, retry_timeout=0.5) as dalston:
        started = time.monotonic()
        with pytest.raises(Unreachable, match="does not answer"):
            dalston.submit_task("echo")
        assert time.monotonic() - started < 10


@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, Invalid), (401, Refused), (403, Refused), (404, NotFound), (409, Conflict), (413, Invalid), (422, Invalid),
     (429, Busy), (500, Unavailable), (503, Unavailable), (418, ApiError)],
)  # fmt: skip
def test_a_problem_document_becomes_an_exception(status: int, kind: type[ApiError]) -> None:
    answer = problem(status, "some_code")
    with scripted(answer) as server, client(server, retry_timeout=0.0) as dalston, pytest.raises(kind) as caught:
        dalston.job("../../nodes?x#y")
    assert type(caught.value) is kind
    assert (caught.value.code, caught.value.status, caught.value.trace_id) == ("some_code", status, "a" * 32)
    assert caught.value.detail == str(caught.value) == "It is some_code."
    assert server.asked[0].path == "/api/v1/jobs/..%2F..%2Fnodes%3Fx%23y"


def test_a_server_that_is_not_dalston_is_named_as_such() -> None:
    for answer in (Answer(200, b"<html>"), Answer(404, b"<html>")):
        with scripted(answer) as server, client(server) as dalston, pytest.raises(ApiError, match="address"):
            dalston.nodes()


def test_the_token_is_sent_and_shown_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with scripted(Answer(200, []), problem(401, "token_invalid")) as server, client(server) as dalston:
        dalston.nodes()
        with pytest.raises(Refused) as caught:
            dalston.nodes()
        shown = [repr(dalston), str(vars(dalston)), repr(caught.value), str(vars(caught.value)), caplog.text]
    assert server.asked[0].headers["authorization"] == f"Bearer {TOKEN}"
    assert not [text for text in shown if "secret" in text]


@pytest.mark.parametrize(
    ("url", "token", "message"),
    [
        (None, TOKEN, "DALSTON_URL"),
        ("ftp://x", TOKEN, "must look like"),
        ("http://u:p@x", TOKEN, "no user"),
        ("http://x:99999", TOKEN, "cannot be read"),
        ("http://x", None, "DALSTON_TOKEN"),
        ("http://x", "dal_é", "no token has"),
        ("http://x", "dal_\nX: y", "no token has"),
    ],
)
def test_a_wrong_configuration_is_a_sentence(url: str | None, token: str | None, message: str) -> None:
    with pytest.raises(NotConfigured, match=message) as caught:
        config.resolve(url, token, {})
    assert "secret" not in str(caught.value)


def test_the_environment_is_read_and_arguments_come_first() -> None:
    env = {"DALSTON_URL": "http://a:1/api/v1/", "DALSTON_TOKEN": " dal_x\n"}
    assert config.resolve(None, None, env) == ("http://a:1", "dal_x")
    assert config.resolve("http://b/", "dal_y", env) == ("http://b", "dal_y")


@pytest.mark.parametrize(
    ("error", "repeatable", "nothing_sent", "again"),
    [
        (Busy(429, "x", "x"), False, False, True),
        (Unreachable("x"), False, True, True),
        (Unreachable("x"), False, False, False),
        (Unreachable("x"), True, False, True),
        (Unavailable(503, "x", "x"), True, False, True),
        (Unavailable(503, "x", "x"), False, False, False),
        (Unavailable(500, "x", "x"), True, False, False),
        (Conflict(409, "x", "x"), True, False, False),
        (NotConfigured("x"), True, True, False),
    ],
)
def test_whether_another_try_can_help(error: DalstonError, repeatable: bool, nothing_sent: bool, again: bool) -> None:
    assert may_retry(error, repeatable=repeatable, nothing_sent=nothing_sent) is again


def test_the_backoff_grows_to_a_cap_and_ends_at_the_timeout() -> None:
    assert [backoff(n, 0, 99, None, 1.0) for n in (0, 1, 2, 9)] == [0.25, 0.5, 1.0, 5.0]
    assert backoff(0, 0, 99, 7.0, 0.0) == 7.0
    assert backoff(0, 95, 99, 7.0, 0.0) is None
