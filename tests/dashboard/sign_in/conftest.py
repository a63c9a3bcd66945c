"""A provider process for this folder, Dalston configured for it, and a browser that goes there and back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from django.test import Client
from pytest_django import Settings

from tests.oidc import ROLES, Provider, provider_process
from tests.tools.oidc_provider import CLIENT, SECRET


@pytest.fixture(scope="package")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    with provider_process(tmp_path_factory.mktemp("provider") / "log") as started:
        yield started


@pytest.fixture
def provider(process: Provider, settings: Settings, db: None) -> Provider:
    process.control()
    settings.DALSTON_OIDC_ISSUER = process.issuer
    settings.DALSTON_OIDC_CLIENT_ID, settings.DALSTON_OIDC_CLIENT_SECRET = CLIENT, SECRET
    settings.DALSTON_OIDC_LABEL = "Example & Co"
    settings.DALSTON_OIDC_ROLES = dict(pair.split("=") for pair in ROLES.split(","))
    return process


class Browser:
    """Django's client for Dalston, HTTP for the provider."""

    http: ClassVar[httpx.Client] = httpx.Client(timeout=20)

    def __init__(self, address: str = "192.0.2.1") -> None:
        self.client = Client(REMOTE_ADDR=address)
        self.back = ""  # the URL by which the provider sent the browser back
        self.asked: dict[str, str] = {}  # what Dalston asked the provider for

    def sign_in(self, wanted: str = "") -> tuple[int, str, str]:
        """Status, location and page of the answer at the end."""
        self.go(wanted)
        return self.come_back()

    def go(self, wanted: str = "") -> None:
        answer = self.client.get("/login/provider/", {"next": wanted} if wanted else {})
        assert answer.status_code == 302, answer.content
        url = urlsplit(answer["Location"])
        self.asked = {name: values[0] for name, values in parse_qs(url.query).items()}
        agreed = self.http.get(url._replace(path="/confirm").geturl())
        assert agreed.status_code == 302, agreed.text
        self.back = agreed.headers["Location"]

    def come_back(self) -> tuple[int, str, str]:
        url = urlsplit(self.back)
        answer = self.client.get(f"{url.path}?{url.query}")
        return answer.status_code, answer.get("Location", ""), " ".join(answer.content.decode().split())

    def is_in(self) -> bool:
        return bool(self.client.get("/password/").status_code == 200)


@pytest.fixture
def browser(provider: Provider) -> Browser:
    return Browser()
