"""Stores of both kinds. S3 is a moto server, a process of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dalston_queue.artifacts import Store, open_store
from tests.support import reserve_port, wait_until

BUCKET = "audio"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an S3 server with one bucket."""
    port = reserve_port()
    log = (tmp_path_factory.mktemp("s3") / "log").open("wb")
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], stdout=log, stderr=log
    )
    try:
        wait_until(lambda: _listens(port), 60, "the S3 server answers")
        url = f"http://127.0.0.1:{port}"
        # In a process of its own: botocore warns of what it uses itself.
        make = f"from s3fs import S3FileSystem; S3FileSystem().mkdir({BUCKET!r})"
        env = {**os.environ, **CREDENTIALS, "AWS_ENDPOINT_URL": url}
        subprocess.run([sys.executable, "-c", make], env=env, check=True)
        yield url
    finally:
        server.kill()
        server.wait()
        log.close()


def _listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def s3_env(s3_server: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What a process needs for that server; set in this one, too."""
    env = {**CREDENTIALS, "AWS_ENDPOINT_URL": s3_server}
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    return env


@pytest.fixture(params=["folder", "s3"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "folder":
        return (tmp_path / "store").as_uri()
    request.getfixturevalue("s3_env")
    return f"s3://{BUCKET}/{tmp_path.name}"


@pytest.fixture
def store(store_url: str) -> Store:
    return open_store(store_url)
