"""Stores of both kinds."""

from __future__ import annotations

from pathlib import Path

import pytest

from dalston_queue.artifacts import Store, open_store
from tests.s3 import BUCKET


@pytest.fixture(params=["folder", "s3"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "folder":
        return (tmp_path / "store").as_uri()
    request.getfixturevalue("s3_env")
    return f"s3://{BUCKET}/{tmp_path.name}"


@pytest.fixture
def store(store_url: str) -> Store:
    return open_store(store_url)
