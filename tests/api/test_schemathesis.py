"""Requests made from the API's own OpenAPI page, against a real web process, with every check of schemathesis.

Few in a normal run, always the same ones. All of them, 2 000 for each operation:

    ./dev test --slow tests/api/test_schemathesis.py          (DALSTON_SCHEMA_EXAMPLES=200 for fewer)
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.web import Web

pytestmark = pytest.mark.django_db(transaction=True)

ROOT = Path(__file__).resolve().parents[2]
SETUP = Path(__file__).parent / "schema" / "schemathesis.toml"
SEED = "6"
SCOPES = ("submit", "read", "operate", "worker")


def check(web: Web, token: str, *arguments: str) -> None:
    """Run it; what it found is the failure's text."""
    run = ["run", f"{web.url}/api/v1/openapi.json", "--seed", SEED, "--workers", "1", "--no-color"]
    header = ["--header", f"Authorization: Bearer {token}", "--warnings", "off", "--continue-on-failure"]
    found = subprocess.run(
        [sys.executable, "-m", "schemathesis.cli", "--config-file", str(SETUP), *run, *header, *arguments],
        env={**os.environ, "SCHEMATHESIS_HOOKS": "tests.api.schema.hooks", "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, f"{found.stdout[-20_000:]}\n{found.stderr[-2_000:]}"
    assert web.process.running()


@pytest.mark.timeout(240)
def test_a_few_requests_to_every_route_keep_to_the_schema(web: Web, token_for: Callable[..., str]) -> None:
    check(web, token_for(*SCOPES), "--phases", "examples,fuzzing", "--max-examples", "3")


@pytest.mark.slow
@pytest.mark.timeout(6 * 3600)
def test_thousands_of_requests_to_every_route_keep_to_the_schema(web: Web, token_for: Callable[..., str]) -> None:
    examples = os.environ.get("DALSTON_SCHEMA_EXAMPLES", "2000")
    check(web, token_for(*SCOPES), "--phases", "examples,coverage,fuzzing,stateful", "--max-examples", examples)
