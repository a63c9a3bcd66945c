"""/metrics of the web process is for a token or an allowed network, and refused by default."""

import pytest
from django.test import Client
from pytest_django import Settings

from dalston_queue.metrics.web import may_read
from dalston_site import env
from dalston_site.env import EnvError
from tests.metrics.support import Grown

TOKEN = "k7-metrics-0123456789"


@pytest.mark.parametrize(
    ("authorization", "address", "allowed"),
    [
        ("", "127.0.0.1", False),
        (f"Bearer {TOKEN}", "127.0.0.1", True),
        (f"bearer {TOKEN}", "not an address", True),
        (f"Basic {TOKEN}", "127.0.0.1", False),
        ("Bearer ", "127.0.0.1", False),
        ("Bearer é", "127.0.0.1", False),
        (f"Bearer {TOKEN}x", "127.0.0.1", False),
        ("", "10.1.2.3", True),
        ("", "::ffff:10.1.2.3", True),
        ("", "11.1.2.3", False),
        ("", "", False),
    ],
)
def test_it_needs_the_token_or_an_allowed_network(
    settings: Settings, authorization: str, address: str, allowed: bool
) -> None:
    settings.DALSTON_METRICS_TOKEN = TOKEN
    settings.DALSTON_METRICS_NETWORKS = ["10.0.0.0/8"]
    assert may_read(authorization, address) is allowed


def test_without_settings_every_request_is_refused(client: Client, settings: Settings) -> None:
    settings.DALSTON_METRICS_TOKEN = ""
    settings.DALSTON_METRICS_NETWORKS = []
    for headers in ({}, {"Authorization": "Bearer "}, {"Authorization": "Bearer x"}):
        answer = client.get("/metrics", headers=headers)
        assert answer.status_code == 401
        assert b"DALSTON_METRICS_TOKEN" in answer.content
        assert b"dalston_" not in answer.content


def test_a_guessable_token_and_a_bad_address_stop_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("short", "a" * 40):
        monkeypatch.setenv("DALSTON_METRICS_TOKEN", value)
        with pytest.raises(EnvError, match="too easy to guess") as refused:
            env.secret("DALSTON_METRICS_TOKEN")
        assert value not in str(refused.value)
    for value in ("9433", "127.0.0.1:99999", "a b:1"):
        monkeypatch.setenv("DALSTON_METRICS_ADDRESS", value)
        with pytest.raises(EnvError, match="DALSTON_METRICS_ADDRESS"):
            env.address("DALSTON_METRICS_ADDRESS")


@pytest.mark.django_db
def test_requests_count_by_the_pattern_of_their_url(client: Client) -> None:
    grown = Grown()
    client.get("/api/v1/jobs/018f0000-0000-7000-8000-000000000001")
    client.get("/no/such/page/0123")
    client.generic("BREW", "/no/such/page")
    labels = {"method": "GET", "status": "401", "route": "/api/v1/jobs/<job_id>"}
    assert grown.by("dalston_http_requests_total", **labels) == 1
    assert grown.by("dalston_http_requests_total", method="GET", route="none", status="404") == 1
    assert grown.by("dalston_http_requests_total", method="other", route="none", status="404") == 1
    assert grown.by("dalston_http_request_duration_seconds_count", method="GET", route="none") == 1
