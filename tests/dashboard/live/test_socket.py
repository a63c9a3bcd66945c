"""A page's WebSocket on a real web process: who is refused, what is pushed, and how soon."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest
from django.contrib.auth.models import User
from django.utils import timezone
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection

from dalston_queue.dashboard.live.consumer import OPEN_PAGES
from dalston_queue.jobs.submit.spec import single_task
from dalston_queue.jobs.submit.submit import submit
from dalston_queue.models import Duty, Job, Project, Task
from tests.dashboard.sockets import socket, until
from tests.support import WAIT_TIMEOUT_S, keeps_time
from tests.web import Web

pytestmark = pytest.mark.django_db(transaction=True)
PATH = "overview/"
FRAGMENTS = ("as-of", "health", "lanes", "tasks", "nodes", "dead-letters", "leaders", "duties")


@pytest.fixture
def session(web: Web) -> Iterator[httpx.Client]:
    with web.log_in(User.objects.create_user("ada")) as client:
        yield client


def tick(connection: ClientConnection) -> list[str]:
    """The messages of one tick: the time of the poll comes last, and in every tick."""
    messages: list[str] = []
    while not messages or 'id="as-of"' not in messages[-1]:
        message = connection.recv(timeout=WAIT_TIMEOUT_S)
        assert isinstance(message, str)
        messages.append(message)
    return messages


def pieces(messages: list[str]) -> dict[str, str]:
    """The fragments and rows of these messages, by id."""
    found: dict[str, str] = {}
    for message in messages:
        for fragment in re.split(rf'(?=<\w+ id="(?:{"|".join(FRAGMENTS)})")', message):
            if name := re.match(r'<(?!tr)\w+ id="([^"]+)"', fragment):
                found[name.group(1)] = fragment
        found |= {row.group(1): row.group() for row in re.finditer(r'<tr id="([^"]+)".*?</tr>', message, re.DOTALL)}
    return found


def test_an_unauthenticated_socket_is_closed_with_a_code_the_page_understands(web: Web) -> None:
    with socket(web, None, PATH) as connection, pytest.raises(ConnectionClosed):
        connection.recv(timeout=WAIT_TIMEOUT_S)
    assert connection.close_code == 4401


def test_one_person_leaves_slots_for_live_pages_to_others() -> None:
    with ExitStack() as held:
        taken = [held.enter_context(OPEN_PAGES.take("user 1")) for _ in range(600)]
        assert taken.count(True) == OPEN_PAGES.limit // 2
        assert held.enter_context(OPEN_PAGES.take("user 2"))


def test_another_origin_is_refused(web: Web, session: httpx.Client) -> None:
    with pytest.raises(InvalidStatus, match="403"), socket(web, session, PATH, origin="https://evil.example"):
        pass


def test_another_port_of_this_host_is_another_origin(web: Web, session: httpx.Client) -> None:
    with (
        pytest.raises(InvalidStatus, match="403"),
        socket(web, session, PATH, origin=f"http://127.0.0.1:{web.port + 1}"),
    ):
        pass


def test_an_unknown_url_is_refused_without_a_traceback(web: Web, session: httpx.Client) -> None:
    with pytest.raises(InvalidStatus, match="403"), socket(web, session, "nosuch/"):
        pass
    assert "Traceback" not in web.process.output


def test_the_first_message_is_everything_and_later_ones_only_what_changed(web: Web, session: httpx.Client) -> None:
    """The web process serves other tests too: a lane that one left behind may change, and its row comes, too."""
    with socket(web, session, PATH) as connection:
        shown = pieces(tick(connection))
        assert shown.keys() >= set(FRAGMENTS)
        while "No task yet" not in shown["tasks"]:  # a viewer of the test before may not have left yet
            shown |= pieces(tick(connection))
        Duty.objects.create(name="scanner", every_s=60, last_run_at=timezone.now(), duration_ms=1, repaired=0)
        while "duty-scanner" not in shown:
            later = pieces(tick(connection))
            assert "as-of" in later
            assert "tasks" not in later
            assert [name for name, html in later.items() if shown.get(name) == html] == []
            shown |= later


def test_a_new_task_and_its_end_are_pushed_within_a_second(web: Web, session: httpx.Client) -> None:
    project = Project.objects.create(name="alpha")
    with socket(web, session, PATH) as one, socket(web, session, PATH) as two:
        for connection in (one, two):
            tick(connection)

        def once() -> float:
            """The longer of the two waits."""
            task_id = submit(single_task("echo"), project=project).task_ids[0]
            submitted = time.monotonic()
            for connection in (one, two):
                until(connection, f'id="task-{task_id}".*pending')
            shown, now = time.monotonic(), timezone.now()
            Task.objects.filter(pk=task_id).update(status="completed", started_at=now, finished_at=now)
            finished = time.monotonic()
            message = until(one, f'id="task-{task_id}".*completed')
            assert 'id="tasks"' not in message, "only the row was to be sent"
            assert message.startswith("<tr "), "rows travel apart from other elements: an HTML parser would drop them"
            return max(shown - submitted, time.monotonic() - finished)

        keeps_time(1.5, once)  # a second by design


def test_the_page_shows_the_same_row_as_the_socket(web: Web, session: httpx.Client) -> None:
    task_id = submit(single_task("echo"), project=Project.objects.create(name="alpha")).task_ids[0]
    row = rf'<tr id="task-{task_id}">.*?</tr>'
    with socket(web, session, PATH) as connection:
        pushed = re.search(row, until(connection, row))
    shown = re.search(row, session.get("/").text)
    assert pushed
    assert shown
    assert pushed.group() == shown.group()


def test_after_a_restart_of_the_web_process_a_viewer_catches_up(web: Web, session: httpx.Client) -> None:
    with socket(web, session, PATH) as connection:
        tick(connection)
        web.process.stop()
        with pytest.raises(ConnectionClosed):
            until(connection, "nothing ever says this")
        assert connection.close_code in {1006, 1012}, "codes after which htmx reconnects by itself"
    task_id = submit(single_task("echo"), project=Project.objects.create(name="alpha")).task_ids[0]
    web.start()
    with socket(web, session, PATH) as connection:
        assert f'id="task-{task_id}"' in "".join(tick(connection))


def test_the_page_of_a_deleted_job_gets_a_close_code_of_its_own(web: Web, session: httpx.Client) -> None:
    job_id = submit(single_task("echo"), project=Project.objects.create(name="calls")).job_id
    with socket(web, session, f"jobs/{job_id}/") as connection:
        until(connection, "echo")
        Task.objects.filter(job_id=job_id).delete()
        Job.objects.filter(pk=job_id).delete()
        with pytest.raises(ConnectionClosed):
            until(connection, "never")
    assert connection.close_code == 4404
