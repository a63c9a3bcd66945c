"""A real web process for tests: uvicorn on a free port, on the test's own database and key prefix."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping

import httpx

from tests.support import Spawned, wait_until


class Web:
    def __init__(self, spawn: Callable[..., Spawned], env: Mapping[str, str]) -> None:
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.origin = self.url
        self._spawn, self._env = spawn, dict(env)
        self.process = self.start()

    def start(self) -> Spawned:
        command = ["-m", "uvicorn", "dalston_site.asgi:application", "--port", str(self.port), "--log-level", "warning"]
        self.process = self._spawn(*command, env=self._env)
        wait_until(self._answers, 20, "the web process answers")
        return self.process

    def client(self, token: str | None = None) -> httpx.Client:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=40)

    def log_in(self, username: str, password: str) -> httpx.Client:
        """A client with a session, as a browser would have it after the login form."""
        client = self.client()
        client.get("/login/")
        form = {
            "username": username,
            "password": password,
            "csrfmiddlewaretoken": client.cookies["csrftoken"],
            "next": "/",
        }
        answer = client.post("/login/", data=form, headers={"Referer": f"{self.url}/login/"})
        assert answer.status_code == 302, answer.text
        return client

    def _answers(self) -> bool:
        assert self.process.running(), self.process.output
        try:
            return httpx.get(f"{self.url}/healthz", timeout=5).status_code == 200
        except httpx.TransportError:
            return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
