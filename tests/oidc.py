"""The provider of tests/tools/oidc_provider.py as a process, and the settings with which Dalston signs in by it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.support import Spawned, reserve_port, wait_until
from tests.tools.oidc_provider import CLIENT, SECRET

ROOT = Path(__file__).resolve().parent.parent
ROLES = "gpu-ops=operator,gpu-admins=admin,staff=viewer,platform=superuser"


class Provider:
    def __init__(self, log: Path) -> None:
        self.port = reserve_port()
        self.issuer = f"http://127.0.0.1:{self.port}"
        self.env = {
            "DALSTON_OIDC_ISSUER": self.issuer,
            "DALSTON_OIDC_CLIENT_ID": CLIENT,
            "DALSTON_OIDC_CLIENT_SECRET": SECRET,
            "DALSTON_OIDC_LABEL": "Example & Co",
            "DALSTON_OIDC_ROLES": ROLES,
        }
        self._log, self._http = log, httpx.Client(base_url=self.issuer, timeout=20)
        self.start()

    def start(self) -> None:
        argv = [sys.executable, "-m", "tests.tools.oidc_provider", str(self.port)]
        self.process = Spawned(argv, self._log, {}, ROOT)
        wait_until(self._answers, 60, "the provider answers")

    def stop(self) -> None:
        self._http.close()
        self.process.stop()
        self.process.reap()

    def control(self, **state: Any) -> None:
        """Who signs in, and what is wrong, from now on; what is not named is as at the start."""
        self._http.post("/control", json=state).raise_for_status()

    def change_key(self) -> None:
        self._http.post("/control?new-key", json={}).raise_for_status()

    def seen(self) -> list[str]:
        """The paths that were asked for since the last `control`."""
        found: list[str] = self._http.get("/seen").json()
        return found[:-1]

    def _answers(self) -> bool:
        assert self.process.running(), self.process.output
        try:
            self.control()
        except httpx.TransportError:
            return False
        return True


@contextmanager
def provider_process(log: Path) -> Iterator[Provider]:
    provider = Provider(log)
    try:
        yield provider
    finally:
        provider.stop()
