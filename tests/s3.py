"""A moto server, which speaks S3, as a process of its own: one for all tests of a worker."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support import reserve_port, wait_until

BUCKET = "audio"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an S3 server with one bucket. The client keeps its connection for the life of a process, so a
    second server would not be seen."""
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
