"""Connections: a head, a pipeline or a body without end costs neither memory nor other clients' time."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from websockets.sync.client import connect
from websockets.typing import Origin

from dalston_queue.models import LoginAttempt, Project
from dalston_site.web.held import STEP_BYTES, HeldBytes
from dalston_site.web.protocol import MAX_CHUNKS, MAX_HEAD_LINES, REFUSED_S
from tests.abuse.sockets import Raw, files_mb, memory_mb, quick
from tests.support import WAIT_TIMEOUT_S, wait_until
from tests.web import Web, environment

pytestmark = pytest.mark.django_db(transaction=True)
HEAD = b"POST /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
MANY = 12


@pytest.fixture
def raw(web: Web) -> Iterator[Callable[[], Raw]]:
    opened: list[Raw] = []

    def connect() -> Raw:
        opened.append(Raw(web))
        return opened[-1]

    yield connect
    for each in opened:
        each.close()


def test_a_header_without_end_is_refused_and_holds_no_client_up(web: Web, raw: Callable[[], Raw]) -> None:
    quick(web)
    before = memory_mb(web)
    attacker = raw()
    attacker.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ")
    sent, slowest = 0, 0.0
    while sent < 40 and attacker.send(b"a" * 1024 * 1024):
        sent += 1
        slowest = max(slowest, quick(web))
    assert sent < 10, "the server closes the connection"
    assert memory_mb(web) - before < 20


def test_header_lines_without_end_are_refused(web: Web, raw: Callable[[], Raw]) -> None:
    before = memory_mb(web)
    attacker = raw()
    attacker.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
    sent = 0
    while sent < 400 and attacker.send(b"x: aaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n" * 3000):
        sent += 1
    assert sent < 100
    assert memory_mb(web) - before < 20


@pytest.mark.parametrize("reads", [False, True], ids=["answers that no client reads", "answers that are read"])
@pytest.mark.parametrize("path", ["/healthz", "/nothing/", "/static/dalston/pages.css", "/api/v1/tasks"])
def test_pipelined_requests_wait_in_the_network_and_not_in_memory(
    web: Web, raw: Callable[[], Raw], path: str, reads: bool
) -> None:
    quick(web)
    before = memory_mb(web)
    attacker = raw()
    attacker.socket.settimeout(0.5)
    if reads:
        threading.Thread(target=_read_all, args=[attacker.socket], daemon=True).start()
    requests = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() * 5000
    with suppress(TimeoutError):  # the server stops reading
        for _ in range(400):
            attacker.socket.sendall(requests)
    assert memory_mb(web) - before < 40
    assert quick(web) < 5


def _read_all(connection: socket.socket) -> None:
    with suppress(OSError):
        while True:
            select.select([connection], [], [])  # the sender's timeout is the socket's
            if not connection.recv(65_536):
                return


def test_of_pipelined_requests_each_is_answered(web: Web, raw: Callable[[], Raw]) -> None:
    """More than the server reads ahead, and the last one alone after a pause."""
    client, count, answered = raw(), 4_000, b""
    one = b"GET /nothing/%04d HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 200 + b"\r\n\r\n"
    sending = threading.Thread(target=lambda: client.send(b"".join(one % number for number in range(count))))
    sending.start()
    while answered.count(b"HTTP/1.1 404") < count and (part := client.answer()):
        answered += part
    assert answered.count(b"HTTP/1.1 404") == count
    sending.join()
    client.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert client.answer().startswith(b"HTTP/1.1 200")


CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n"


@pytest.mark.parametrize("known", [False, True], ids=["without a token", "with a token"])
def test_chunks_of_a_byte_are_refused_and_hold_no_client_up(
    web: Web, raw: Callable[[], Raw], token_for: Callable[..., str], known: bool
) -> None:
    attacker = raw()
    attacker.send(CHUNKED + (f"Authorization: Bearer {token_for('submit')}\r\n".encode() if known else b"") + b"\r\n")
    sent = 0
    while sent < 60 and attacker.send(b"1\r\n{\r\n" * 40_000):
        sent += 1
        assert quick(web) < 5
    assert sent < 60, "the server closes the connection"


@pytest.mark.parametrize("path", [b"/healthz", b"/api/v1/tasks"], ids=["answered at once", "refused"])
def test_a_body_without_end_is_read_slowly_after_its_answer(web: Web, raw: Callable[[], Raw], path: bytes) -> None:
    """Its chunks are just large enough."""
    attacker = raw()
    attacker.send(CHUNKED.replace(b"/api/v1/tasks", path) + b"\r\n")
    attacker.socket.settimeout(0.2)
    chunks = (b"41\r\n" + b" " * 65 + b"\r\n") * 4000
    began, sent = time.monotonic(), 0
    while time.monotonic() - began < 3:
        with suppress(TimeoutError):
            sent += attacker.socket.send(chunks)
        assert quick(web) < 5
    assert sent < 20_000_000, "it is read no faster, and waits in the network"


def test_chunks_of_a_byte_are_named_as_the_reason_after_a_while(web: Web, raw: Callable[[], Raw]) -> None:
    attacker = raw()
    began = time.monotonic()
    attacker.send(CHUNKED + b"\r\n" + b"1\r\n{\r\n" * (2 * MAX_CHUNKS))
    answer = attacker.whole_answer()
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"The chunks of the body are too small." in answer
    assert time.monotonic() - began >= REFUSED_S, "so that a client that comes again at once costs little"


@pytest.mark.parametrize(("count", "size"), [(900, 1), (9000, 80)], ids=["a few small ones", "many that are not small"])
def test_a_body_in_honest_chunks_is_not_refused_for_them(
    web: Web, raw: Callable[[], Raw], token_for: Callable[..., str], count: int, size: int
) -> None:
    authorised = f"Authorization: Bearer {token_for('submit')}\r\n\r\n".encode()
    body = b'{"task_type": "echo", "parameters": {}}'
    client = raw()
    client.send(CHUNKED + authorised + (b"%x\r\n" % size + b" " * size + b"\r\n") * count)
    client.send(b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n")
    assert client.answer()[9:12] == (b"413" if count * size > 300_000 else b"201")


def test_a_head_of_many_lines_is_refused_unparsed(web: Web, raw: Callable[[], Raw]) -> None:
    head = b"GET /api/v1/tasks HTTP/1.1\r\nHost: localhost\r\n"
    attacker, client = raw(), raw()
    attacker.send(head + b"a:\r\n" * 7000 + b"\r\n")
    client.send(head + b"a: b\r\n" * (MAX_HEAD_LINES - 10) + b"\r\n" + b"\n" * MAX_HEAD_LINES)
    assert client.answer().startswith(b"HTTP/1.1 401"), "and what follows a head is none of its lines"
    answer = attacker.whole_answer()
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"A request has at most 100 header lines." in answer


def test_refused_connections_are_no_more_than_others_and_give_way(db: None, tmp_path: Path) -> None:
    code = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))"
    code += "; from dalston_site.web import protocol; protocol.REFUSED_S = 3600"
    server = Web(environment(), tmp_path / "log", before=code)
    held = [Raw(server) for _ in range(300)]
    try:
        for each in held:
            each.send(b"nothing of HTTP\r\n\r\n")
        assert quick(server) < 5
    finally:
        for each in held:
            each.close()
        server.process.reap()


@pytest.fixture
def brisk(db: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    """A web process whose limits of time are short."""
    code = "from dalston_site.web import protocol; protocol.HEAD_S = protocol.BODY_CHECK_S = 0.5"
    code += "; protocol.MIN_BODY_BYTES = 500"
    server = Web(environment(), tmp_path_factory.mktemp("web") / "log", before=code)
    yield server
    server.process.reap()


def test_what_is_not_sent_in_time_is_closed(brisk: Web) -> None:
    for opening in (b"", b"GET /heal", HEAD, HEAD + b"Content-Length: 1000\r\n\r\n{"):
        attacker = Raw(brisk)
        attacker.send(opening)
        assert attacker.closed_after() < 10, opening
        attacker.close()
    kept = Raw(brisk)
    kept.send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert kept.answer().startswith(b"HTTP/1.1 200")
    kept.send(b"GET /")
    assert kept.closed_after() < 10, "the head of a second request as well"
    kept.close()


def test_more_connections_than_files_lock_no_client_out(db: None, tmp_path: Path) -> None:
    code = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))"
    server = Web(environment(), tmp_path / "log", before=code)
    held = [Raw(server) for _ in range(300)]
    try:
        assert quick(server) < 5, "the oldest of those that send nothing give way"
        held[-1].send(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert held[-1].answer().startswith(b"HTTP/1.1 200")
    finally:
        for each in held:
            each.close()
        server.process.reap()


def test_a_live_page_stays_open_although_its_browser_sends_nothing(brisk: Web) -> None:
    """For longer than two windows: its upgrade is a request without an end, but no slow one."""
    people = User.objects.create_user("vera")
    with brisk.log_in(people) as browser:
        headers = {"Cookie": f"sessionid={browser.cookies['sessionid']}"}
    url, origin = f"ws://127.0.0.1:{brisk.port}/ws/overview/", Origin(brisk.url)
    with connect(url, origin=origin, additional_headers=headers) as page:
        began = time.monotonic()
        while time.monotonic() - began < 3:
            assert "<" in str(page.recv(timeout=WAIT_TIMEOUT_S)), "fragments come on"


def test_a_body_that_keeps_coming_may_take_its_time(brisk: Web) -> None:
    """A slow but honest client is faster than the least pace, however long it takes."""
    client = Raw(brisk)
    client.send(HEAD + b"Authorization: Bearer dal_none\r\nContent-Length: 60000\r\n\r\n")
    for _ in range(30):  # longer than two windows
        client.send(b" " * 2000)
        time.sleep(0.04)
    assert client.answer().startswith(b"HTTP/1.1 401")
    client.close()


def test_before_the_token_is_known_only_a_small_body_is_read(web: Web, raw: Callable[[], Raw]) -> None:
    for header in (b"", b"Authorization: Bearer dal_none\r\n", b"Cookie: sessionid=none\r\n"):
        attacker = raw()
        attacker.send(HEAD + header + b"Content-Length: 16000000\r\n\r\n" + b" " * 200_000)
        assert attacker.answer().startswith(b"HTTP/1.1 401"), header
    assert files_mb(web) < 1


def test_unfinished_bodies_of_one_project_have_a_bound(
    web: Web, raw: Callable[[], Raw], token_for: Callable[..., str], project: Project
) -> None:
    authorised = HEAD + f"Authorization: Bearer {token_for('submit')}\r\n".encode()
    attackers = [raw() for _ in range(MANY)]
    for attacker in attackers:
        attacker.socket.setblocking(False)
    chunk, left = b" " * 500_000, dict.fromkeys(attackers, 15900000)
    for attacker in attackers:
        attacker.socket.setblocking(True)
        attacker.send(authorised + b"Content-Length: 16000000\r\n\r\n")
    for _ in range(31):
        for attacker in attackers:
            attacker.socket.settimeout(2)
            with suppress(OSError):
                attacker.socket.sendall(chunk)
                left[attacker] -= len(chunk)
    assert files_mb(web) <= 140, "half of 256 MB, and what is being written"
    other = HEAD + f"Authorization: Bearer {token_for('submit', project=Project.objects.create(name='b'))}\r\n".encode()
    body = b'{"task_type": "echo", "parameters": {"x": "' + b"a" * 200_000 + b'"}}'
    client = raw()
    client.send(other + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    assert client.answer().startswith(b"HTTP/1.1 201")
    for attacker in attackers:
        attacker.close()
    wait_until(lambda: files_mb(web) < 1, what="what they held is given up")


def test_a_holder_gets_half_of_what_is_left() -> None:
    held = HeldBytes(16 * STEP_BYTES)
    assert [held.take("a") for _ in range(10)].count(True) == 8
    assert [held.take("b") for _ in range(10)].count(True) == 4
    held.drop("a", 8)
    assert [held.take("b") for _ in range(10)].count(True) == 4


def test_no_proxy_is_believed_that_was_not_named(web: Web) -> None:
    """Each invented address would have its own tries to log in."""
    with web.client() as client:
        form = client.get("/login/")
        token = form.text.split('csrfmiddlewaretoken" value="')[1].split('"')[0]
        data = {"username": "ada", "password": "guess", "csrfmiddlewaretoken": token}
        for number in range(3):
            client.post("/login/", data=data, headers={"X-Forwarded-For": f"203.0.113.{number}", "Referer": web.url})
    assert set(LoginAttempt.objects.values_list("address", flat=True)) == {"127.0.0.1"}


def test_the_port_is_free_again(web: Web) -> None:
    with socket.create_connection(("127.0.0.1", web.port), timeout=5):
        assert quick(web) < 5
