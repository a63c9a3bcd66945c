"""Origins: which pages may open our WebSockets."""

import pytest
from pytest_django import Settings

from dalston_queue.dashboard.security.sockets import allowed


@pytest.fixture(autouse=True)
def hosts(settings: Settings) -> None:
    settings.ALLOWED_HOSTS = ["dalston.example", "127.0.0.1"]
    settings.CSRF_TRUSTED_ORIGINS = ["https://status.example:8443", "https://*.corp.example"]


@pytest.mark.parametrize(
    ("origin", "host", "scheme"),
    [
        ("http://127.0.0.1:8000", "127.0.0.1:8000", "ws"),
        ("https://dalston.example", "dalston.example", "wss"),
        ("https://dalston.example:443", "dalston.example", "wss"),
        ("https://Dalston.example", "dalston.EXAMPLE", "wss"),
        ("https://dalston.example", "dalston.example", "ws"),  # a proxy that does not say it ended TLS
        ("https://status.example:8443", "dalston.example", "wss"),
        ("https://a.corp.example", "dalston.example", "wss"),
    ],
)
def test_our_own_pages_and_those_we_trust_may(origin: str, host: str, scheme: str) -> None:
    assert allowed(origin, host, scheme)


@pytest.mark.parametrize(
    ("origin", "host", "scheme"),
    [
        ("http://127.0.0.1:3000", "127.0.0.1:8000", "ws"),  # another service on this machine
        ("https://dalston.example:8443", "dalston.example", "wss"),
        ("http://dalston.example", "dalston.example", "wss"),
        ("https://evil.example", "dalston.example", "wss"),
        ("https://evil.example", "evil.example", "wss"),  # a host that is not ours
        ("https://status.example", "dalston.example", "wss"),
        ("http://a.corp.example", "dalston.example", "wss"),
        ("null", "dalston.example", "wss"),
        ("", "dalston.example", "wss"),
        ("https://dalston.example:http", "dalston.example", "wss"),
        ("https://dalston.example", "", "wss"),
    ],
)
def test_no_other_page_may(origin: str, host: str, scheme: str) -> None:
    assert not allowed(origin, host, scheme)
