"""The answers to /healthz and /readyz: checks that run on threads of their own, within a deadline.

A check that hangs is not asked again until it has answered, and the answers of the last second are shared: however
many ask, a process has one thread per group of checks. A reason is a fixed sentence, without an address, a name or the
text of an error: anyone may ask.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from http import HTTPStatus

import msgspec

TIMEOUT_S = 3.0
FRESH_S = 1.0
KIND = "application/json"


class Grade(StrEnum):
    OK = "ok"
    DEGRADED = "degraded"  # worth knowing, and this process can do nothing about it: it stays ready
    FAILED = "failed"


class Finding(msgspec.Struct, frozen=True, omit_defaults=True):
    status: Grade
    reason: str = ""


OK = Finding(Grade.OK)
Findings = Mapping[str, Finding]


def failed(reason: str) -> Finding:
    return Finding(Grade.FAILED, reason)


class Probe:
    """Checks that are asked together, on a thread, by one thread at a time."""

    def __init__(self, names: Sequence[str], ask: Callable[[], Findings]) -> None:
        """`ask` returns a finding for each of the names. What it raises is a failure of all of them."""
        self.names = tuple(names)
        self._ask = ask
        self._thread: threading.Thread | None = None
        self._began = 0.0
        self._found: Findings = {}

    def start(self) -> None:
        if self._thread is None or not self._thread.is_alive():
            self._began = time.monotonic()
            self._thread = threading.Thread(target=self._run, name=f"check {self.names[0]}", daemon=True)
            self._thread.start()

    def result(self, end: float) -> Findings:
        """The findings by `end`, by the monotonic clock."""
        thread = self._thread
        if thread is not None:
            thread.join(max(0.0, end - time.monotonic()))
            if thread.is_alive():
                silent = failed(f"has not answered for {time.monotonic() - self._began:.0f} s")
                return dict.fromkeys(self.names, silent)
        return self._found

    def _run(self) -> None:
        try:
            self._found = self._ask()
        except Exception:  # noqa: BLE001 - any error is this finding; its text may name addresses
            self._found = dict.fromkeys(self.names, failed("can't be checked"))


class Health:
    """Of one process. `alive`: checks that need no thread, because they only read variables. `stopping`: why the
    process takes no more work; empty while it does."""

    def __init__(
        self,
        process: str,
        *,
        alive: Callable[[], Findings] = dict,
        ready: Sequence[Probe] = (),
        stopping: Callable[[], str] = str,
    ) -> None:
        self.process = process
        self._alive = alive
        self._ready = tuple(ready)
        self._stopping = stopping
        self._lock = threading.Lock()
        self._known: Findings = {}
        self._known_at = float("-inf")

    def healthz(self) -> tuple[HTTPStatus, bytes]:
        return self._answer(self._alive())

    def readyz(self) -> tuple[HTTPStatus, bytes]:
        """Within TIMEOUT_S, for the one who asks; who asks meanwhile waits for the same answer."""
        found = dict(self._checked())
        if why := self._stopping():
            found["stopping"] = failed(why)
        return self._answer({**self._alive(), **found})

    def _checked(self) -> Findings:
        with self._lock:
            if time.monotonic() - self._known_at > FRESH_S:
                for probe in self._ready:
                    probe.start()
                end = time.monotonic() + TIMEOUT_S
                self._known = {name: each for probe in self._ready for name, each in probe.result(end).items()}
                self._known_at = time.monotonic()
            return self._known

    def _answer(self, checks: Findings) -> tuple[HTTPStatus, bytes]:
        grades = {finding.status for finding in checks.values()}
        worst = next(grade for grade in (Grade.FAILED, Grade.DEGRADED, Grade.OK) if grade in {*grades, Grade.OK})
        document = {"status": worst, "process": self.process, "checks": checks}
        code = HTTPStatus.SERVICE_UNAVAILABLE if worst is Grade.FAILED else HTTPStatus.OK
        return code, msgspec.json.encode(document) + b"\n"


def standing_still(idle_s: Mapping[str, float], limit_s: float) -> Findings:
    """A finding for each loop, from how long it has been silent."""
    return {name: failed(f"stands still for {idle:.0f} s") if idle > limit_s else OK for name, idle in idle_s.items()}
