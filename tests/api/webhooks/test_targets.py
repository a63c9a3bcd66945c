"""Targets of webhooks: addresses refused at submission, and those refused after DNS resolution."""

from __future__ import annotations

import socket
import ssl
import subprocess
import threading
from ipaddress import ip_network
from pathlib import Path

import pytest

from dalston_queue.addresses import Target
from dalston_queue.jobs.errors import InvalidCallback
from dalston_queue.jobs.webhooks.attempt import Delivered, NotDelivered, send
from dalston_queue.jobs.webhooks.target import check_address, read_target
from dalston_queue.pinned import PinnedConnection
from tests.api.webhooks.receiver import receiving
from tests.support import need_tool

LOOPBACK = [ip_network("127.0.0.0/8"), ip_network("::1/128")]
REFUSED = [
    "ftp://example.com/", "file:///etc/passwd", "example.com/hook", "//example.com/", "http://", "https:///x",
    "http://user:pw@example.com/", "http://@example.com/", "http://example.com/#part", "http://example.com:22/",
    "http://example.com:0/", "http://example.com:99999/", "http://exam ple.com/", "http://example.com/\r\nX: y",
    "http://exämple.com/", "http://example.com\\@10.0.0.1/", "http://-/", "http://[::1", "http://[zz]/",
    "http://127.0.0.1/", "http://127.1/", "http://0x7f.1/", "http://2130706433/", "http://0177.0.0.1/", "http://0/",
    "http://10.1.2.3/", "http://192.168.0.1:8080/", "http://172.16.0.1/", "http://169.254.169.254/latest/meta-data",
    "http://100.64.0.1/", "http://224.0.0.1/", "http://255.255.255.255/", "http://240.0.0.1/", "http://192.0.2.1/",
    "http://[::1]/", "http://[::]/", "http://[fe80::1]/", "http://[fe80::1%25eth0]/", "http://[fc00::1]/",
    "http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/", "http://[64:ff9b::a00:1]/", "http://[2002:a00:1::1]/",
    "http://[ff02::1]/", "http://localhost/", "http://LOCALHOST./", "http://a.localhost/", "http://db.internal/",
    "http://printer.local/", "http://example.com/" + "a" * 2000,
    "http://127.0.0.1./", "http://0x7f.1./", "http://[fec0::1]/",
]  # fmt: skip


@pytest.mark.parametrize("url", REFUSED, ids=lambda url: url[:40].encode("unicode_escape").decode())
def test_it_is_refused_when_submitted(url: str) -> None:
    with pytest.raises(InvalidCallback, match="callback_url"):
        read_target(url)


@pytest.mark.parametrize(
    ("url", "stored"),
    [
        ("https://Example.com", "https://example.com/"),
        ("http://example.com:80/a?b=c", "http://example.com/a?b=c"),
        ("https://example.com:8443/a%20b", "https://example.com:8443/a%20b"),
        ("http://1.1.1.1:8080", "http://1.1.1.1:8080/"),
        ("https://[2606:4700::1111]/x", "https://[2606:4700::1111]/x"),
    ],
)
def test_it_is_stored_in_one_spelling(url: str, stored: str) -> None:
    assert read_target(url).url == stored


def test_a_network_that_is_allowed_may_be_called() -> None:
    assert read_target("http://127.0.0.1:8000/", LOOPBACK).port == 8000
    assert read_target("http://localhost:8000/", LOOPBACK).host == "localhost"
    assert read_target("http://[::ffff:127.0.0.1]:8000/", LOOPBACK).port == 8000
    with pytest.raises(InvalidCallback):
        read_target("http://10.0.0.1/", LOOPBACK)
    check_address("127.0.0.9", LOOPBACK)
    check_address("64:ff9b::101:101", [])  # 1.1.1.1 behind NAT64


def test_a_name_that_leads_to_loopback_is_not_called() -> None:
    with receiving() as receiver:
        target = Target(secure=False, host="localhost", port=receiver.port, path="/")
        outcome = send(target, {}, b"{}", timeout_s=5, allowed=[])
        assert isinstance(outcome, NotDelivered)
        assert "not a public address" in outcome.why
        assert receiver.got == []
        assert send(target, {}, b"{}", timeout_s=5, allowed=LOOPBACK) == Delivered(200)


def test_the_connection_goes_to_the_checked_address_and_not_to_the_name() -> None:
    with receiving() as receiver:
        target = Target(secure=False, host="no-such-name.invalid", port=receiver.port, path="/")
        connection = PinnedConnection(target, "127.0.0.1", 5)
        connection.request("POST", "/", b"{}", {"Host": target.host_header})
        assert connection.getresponse().status == 200
        connection.close()
        assert receiver.got[0].headers["Host"] == f"no-such-name.invalid:{receiver.port}"


@pytest.mark.parametrize(
    ("host", "secure", "why"),
    [("no-such-name.invalid", False, "gaierror"), ("127.0.0.1", True, "SSL")],
)
def test_a_failure_is_a_value(host: str, secure: bool, why: str) -> None:
    with receiving() as receiver:
        target = Target(secure=secure, host=host, port=receiver.port, path="/")
        outcome = send(target, {}, b"{}", timeout_s=5, allowed=LOOPBACK)
    assert isinstance(outcome, NotDelivered)
    assert why in outcome.why


def test_tls_is_checked_for_the_name_though_the_connection_goes_to_the_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, certificate = tmp_path / "key", tmp_path / "certificate"
    argv = [
        need_tool("openssl"),
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=localhost",
    ]
    argv += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(argv, check=True, capture_output=True)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with receiving() as receiver:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        receiver.server.socket = context.wrap_socket(receiver.server.socket, server_side=True)
        right, wrong = (Target(True, host, receiver.port, "/") for host in ("localhost", "127.0.0.1"))
        assert send(right, {}, b"{}", timeout_s=5, allowed=LOOPBACK) == Delivered(200)
        outcome = send(wrong, {}, b"{}", timeout_s=5, allowed=LOOPBACK)
    assert isinstance(outcome, NotDelivered)
    assert "not valid for '127.0.0.1'" in outcome.why
    assert len(receiver.got) == 1


def test_an_answer_that_is_not_http_is_not_shown() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def talk() -> None:
            line, _ = server.accept()
            with line:
                line.sendall(b"SSH-2.0-\x00secret\r\n")
                line.recv(65_536)

        thread = threading.Thread(target=talk)
        thread.start()
        target = Target(False, "127.0.0.1", server.getsockname()[1], "/")
        outcome = send(target, {}, b"{}", timeout_s=5, allowed=LOOPBACK)
        thread.join()
    assert outcome == NotDelivered("BadStatusLine")
