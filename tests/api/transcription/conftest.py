"""Fixtures: a client of the web process, its store, and stand-ins for the engines, driven step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from pytest_django import Settings

from dalston_queue.artifacts import Store, open_store
from dalston_queue.broker import Broker, Consumer
from tests.api.transcription import speech
from tests.orchestrator.support import Steps, engine, run_to_the_end
from tests.web import Web

SPEECH = b"it was the best of times\nit was the worst of times\n"
URL = "/v1/audio/transcriptions"


@pytest.fixture
def store(web: Web, settings: Settings) -> Store:
    settings.DALSTON_ARTIFACTS_URL = web.env["DALSTON_ARTIFACTS_URL"]
    return open_store(settings.DALSTON_ARTIFACTS_URL)


@pytest.fixture
def files(web: Web) -> Callable[[], list[str]]:
    """The names of all files in the store, also unfinished ones."""
    root = Path(urlsplit(web.env["DALSTON_ARTIFACTS_URL"]).path)
    return lambda: sorted(path.name for path in root.rglob("*") if path.is_file())


@pytest.fixture
def client(web: Web, token_for: Callable[..., str]) -> Iterator[httpx.Client]:
    with web.client(token_for("submit", "read")) as client:
        yield client


class Fleet:
    def __init__(self, steps: Steps, consumer: Consumer, store: Store) -> None:
        self.steps, self.consumer, self.store = steps, consumer, store

    def finish(self) -> None:
        """All that was submitted runs to its end."""
        run_to_the_end(self.steps, self.consumer, partial(speech.answer, self.store))

    def claim(self) -> None:
        """The first stages run, and don't end."""
        self.steps.poll()
        self.consumer.claim()
        self.steps.drain()


@pytest.fixture
def fleet(web_broker: Broker, web: Web, store: Store, settings: Settings) -> Iterator[Fleet]:
    settings.DALSTON_REDIS_PREFIX = web.prefix
    with engine(web_broker, *speech.QUEUES, name="node.speech.0.boot") as consumer:
        steps = Steps(web_broker)
        yield Fleet(steps, consumer, store)
        steps.reader.close()


@pytest.fixture
def upload(client: httpx.Client) -> Callable[..., httpx.Response]:
    """upload(b"text", "name.wav", model="auto", headers={…})"""

    def send(
        content: bytes = SPEECH, name: str = "cities.wav", headers: dict[str, str] | None = None, **form: Any
    ) -> httpx.Response:
        return client.post(URL, files={"file": (name, content)}, data=form, headers=headers or {})

    return send
