"""audio_url: every hop is checked by text and by address, the size is limited, what may pass is tried again."""

import contextlib
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_network
from pathlib import Path

import pytest

from engines.prepare.download import Failed, Refused, download, name_in
from engines.prepare.engine import Prepare
from engines.sdk import Reject
from engines.sdk.testing import run_task

LOOPBACK = [ip_network("127.0.0.1/32")]
SOUND = bytes(range(256)) * 4000


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        kind, _, rest = self.path.lstrip("/").partition("/")
        if kind == "to":
            self.send_response(302)
            self.send_header("Location", rest)
            self.end_headers()
        elif kind == "status":
            self.send_error(int(rest))
        elif kind == "dripping-head":
            with contextlib.suppress(OSError):
                self.wfile.write(b"HTTP/1.1 200 OK\r\n")
                for number in range(90):  # more than 100 lines are refused
                    self.wfile.write(b"x-%d: x\r\n" % number)
                    time.sleep(0.1)
        elif kind == "dripping":
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(OSError):
                for _ in range(200):
                    self.wfile.write(b"x")
                    time.sleep(0.02)
        else:
            self.send_response(200)
            if kind != "endless":
                self.send_header("Content-Length", str(len(SOUND) + (kind == "short")))
            self.end_headers()
            with contextlib.suppress(OSError):  # the client had enough
                self.wfile.write(SOUND)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}"
    httpd.shutdown()
    httpd.server_close()
    thread.join()


def get(url: str, folder: Path, max_bytes: int = 10_000_000) -> bytes:
    download(url, folder / "file", max_bytes, LOOPBACK, lambda *_: None)
    return (folder / "file").read_bytes()


def test_a_file_is_downloaded_through_redirects(server: str, tmp_path: Path) -> None:
    assert get(f"{server}/to/{server}/to/{server}/sound.mp3", tmp_path) == SOUND


def test_a_server_that_drips_does_not_hold_the_engine(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engines.prepare.download.PACE_AFTER_S", 0.1)
    with pytest.raises(Failed, match="sends too slowly"):
        get(f"{server}/dripping", tmp_path)


def test_a_server_that_drips_the_head_of_its_answer_does_not_hold_the_engine(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engines.prepare.download.PACE_AFTER_S", 0.2)
    with pytest.raises(Failed, match="does not answer"):
        get(f"{server}/dripping-head", tmp_path)


@pytest.mark.parametrize(
    "url",
    [
        "http://10.0.0.1/a.mp3", "http://169.254.169.254/latest", "http://[::1]/a", "http://127.0.0.2/a", "http://0x7f.2/a",
        "http://localhost.localdomain.internal@127.0.0.1/", "file:///etc/passwd", "ftp://127.0.0.1/a",
        "http://[::ffff:10.0.0.1]/a", "http://127.0.0.1:22/a",
    ],
)  # fmt: skip
def test_neither_an_address_nor_a_redirect_leads_into_a_private_network(server: str, tmp_path: Path, url: str) -> None:
    for address in (url, f"{server}/to/{url}"):
        with pytest.raises(Refused, match=r"^audio_url "):
            get(address, tmp_path)
    assert not (tmp_path / "file").exists()


def test_a_redirect_loop_ends(server: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="more than 5 redirects"):
        get(f"{server}/to/" * 6 + f"{server}/sound", tmp_path)
    assert get(f"{server}/to/" * 5 + f"{server}/sound", tmp_path) == SOUND


@pytest.mark.parametrize("kind", ["sound", "endless"])
def test_a_file_that_is_too_large_is_refused(server: str, tmp_path: Path, kind: str) -> None:
    with pytest.raises(Refused, match="more than 1000000 bytes"):
        get(f"{server}/{kind}", tmp_path, 1_000_000)


@pytest.mark.parametrize(("status", "error"), [(404, Refused), (410, Refused), (429, Failed), (503, Failed)])
def test_only_what_may_pass_is_tried_again(server: str, tmp_path: Path, status: int, error: type[Exception]) -> None:
    with pytest.raises(error, match=f"127.0.0.1 answered {status}"):
        get(f"{server}/status/{status}", tmp_path)


def test_a_broken_connection_may_be_tried_again(server: str, tmp_path: Path) -> None:
    with pytest.raises(Failed, match=r"bytes arrived|connection to"):
        get(f"{server}/short", tmp_path)


def test_the_engine_refuses_for_good_without_an_allowed_network(server: str) -> None:
    outcome = run_task(Prepare(), {"audio_url": f"{server}/a.mp3"}).outcome
    assert isinstance(outcome, Reject) and "not a public address" in outcome.message


def test_the_name_in_an_address_is_shown() -> None:
    assert name_in("https://example.org/a/b%20c.mp3?x=1") == "b c.mp3"
    assert name_in("https://example.org/") == "the file at audio_url"
    assert name_in("https://example.org/a%0Ab") == "ab"
