"""Requests made from the OpenAPI document, against a real web process, with every check of schemathesis.

Few in a normal run, always the same ones. All of them, 2 000 for each operation:

    ./dev test --slow tests/api/schema/test_schemathesis.py          (SCHEMA_EXAMPLES=200 for fewer)
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from pytest_django import Settings

from dalston_queue.api.api import api
from dalston_queue.artifacts import open_store
from dalston_queue.broker import connect
from dalston_queue.models import Project
from tests.api.schema.existing import existing
from tests.conftest import ROOT
from tests.web import Web

pytestmark = pytest.mark.django_db(transaction=True)

SETUP = Path(__file__).parent / "schemathesis.toml"
SEED = "6"
EXAMPLES = os.environ.get("SCHEMA_EXAMPLES", "2000")
MEMORY = ("--generation-database", "none")
"""With a database Hypothesis spends more time on old examples than on requests."""
SCOPES = ("submit", "read", "operate", "worker")


class Fuzz:
    """Schemathesis against a web process with existing rows."""

    def __init__(self, web: Web, token: str, env: Mapping[str, str], answers: Path) -> None:
        self._web, self._token, self._env, self._answers = web, token, env, answers

    def run(self, *arguments: str) -> None:
        """Fails with the report of schemathesis."""
        run = ["run", f"{self._web.url}/api/v1/openapi.json", "--seed", SEED, "--workers", "1", "--no-color", *MEMORY]
        header = ["--header", f"Authorization: Bearer {self._token}", "--continue-on-failure"]
        found = subprocess.run(
            [sys.executable, "-m", "schemathesis.cli", "--config-file", str(SETUP), *run, *header, *arguments],
            env={**os.environ, **self._env, "SCHEMATHESIS_HOOKS": "tests.api.schema.hooks", "PYTHONPATH": str(ROOT)},
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert found.returncode == 0, f"{found.stdout[-20_000:]}\n{found.stderr[-2_000:]}"
        assert self._web.process.running()

    def accepted(self) -> set[str]:
        """The operations that answered 2xx at least once."""
        answers = (line.split(maxsplit=1) for line in self._answers.read_text().splitlines())
        return {operation for status, operation in answers if status.startswith("2")}


@pytest.fixture
def fuzz(
    web: Web, token_for: Callable[..., str], project: Project, settings: Settings, redis_url: str, tmp_path: Path
) -> Iterator[Fuzz]:
    settings.DALSTON_REDIS_PREFIX = web.prefix
    store = open_store(web.env["DALSTON_ARTIFACTS_URL"])
    broker, token = connect(redis_url, prefix=web.prefix), token_for(*SCOPES)
    known, answers = tmp_path / "existing.json", tmp_path / "answers"
    with web.client(token) as client, existing(broker, project, client, store) as found:
        known.write_text(json.dumps(found))
        yield Fuzz(web, token, {"SCHEMA_EXISTING": str(known), "SCHEMA_ANSWERS": str(answers)}, answers)
    broker.close()


def operations() -> list[str]:
    """Each as schemathesis names it: `GET /api/v1/tasks`."""
    paths = api.get_openapi_schema()["paths"]
    return sorted(f"{method.upper()} {path}" for path, methods in paths.items() for method in methods)


@pytest.mark.timeout(240)
def test_a_few_requests_to_every_route_keep_to_the_schema(fuzz: Fuzz) -> None:
    fuzz.run("--phases", "examples,fuzzing", "--max-examples", "3")
    assert set(operations()) - fuzz.accepted() == set()


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("operation", operations())
def test_thousands_of_requests_to_one_route_keep_to_the_schema(fuzz: Fuzz, operation: str) -> None:
    fuzz.run("--include-name", operation, "--phases", "examples,coverage,fuzzing", "--max-examples", EXAMPLES)
    assert operation in fuzz.accepted()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_requests_that_use_what_others_answered_keep_to_the_schema(fuzz: Fuzz) -> None:
    fuzz.run("--phases", "stateful", "--max-examples", EXAMPLES)
