"""Findings of `manage.py doctor`, and those that servers and nodes share: Redis, its clock, the artifact store."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from dalston_queue.artifacts import ArtifactError, open_store
from dalston_queue.broker import Broker
from dalston_queue.broker.errors import BrokerError, Misconfigured

SLOW_REDIS_S = 0.05
MAX_SKEW_S = 2.0


class Grade(IntEnum):
    """The exit code is the worst of all findings."""

    OK = 0
    DEGRADED = 1
    BROKEN = 2


@dataclass(frozen=True, slots=True)
class Finding:
    grade: Grade
    subject: str
    text: str


def redis(make_broker: Callable[[], Broker]) -> Iterator[Finding]:
    try:
        broker = make_broker()
        broker.ping()  # connects
        seconds = broker.ping()
        skew = broker.home.now_ms() / 1000 - time.time()
    except BrokerError as error:
        yield Finding(Grade.BROKEN, "redis", f"{error}: no work is delivered; check REDIS_URL")
        return
    grade = Grade.DEGRADED if seconds > SLOW_REDIS_S else Grade.OK
    yield Finding(grade, "redis", f"answers in {seconds * 1000:.1f} ms")
    try:
        for sentence in broker.check():
            yield Finding(Grade.DEGRADED, "redis", sentence)
    except Misconfigured:
        text = "its user may not read INFO: version, eviction and persistence are checked by the doctor of a server"
        yield Finding(Grade.OK, "redis", text)
    except BrokerError as error:
        yield Finding(Grade.BROKEN, "redis", f"{error}")
    yield clock("Redis", skew)


def clock(server: str, skew_s: float) -> Finding:
    if abs(skew_s) > MAX_SKEW_S:
        text = f"the clock of {server} is {skew_s:+.1f} s from ours: deadlines that are shown will be off; set up NTP"
        return Finding(Grade.DEGRADED, "clock", text)
    return Finding(Grade.OK, "clock", f"within {abs(skew_s) * 1000:.0f} ms of {server}")


def artifacts(url: str) -> Finding:
    """Whether the store can be written and read; nothing is left there."""
    if not url:
        text = "DALSTON_ARTIFACTS_URL is empty: no recording can be uploaded, and engines can't work on files"
        return Finding(Grade.DEGRADED, "artifacts", text)
    try:
        store = open_store(url)
        with store.writer() as writer:
            writer.write(b"a test, not kept")
        store.exists(f"sha256:{'0' * 64}")
    except ArtifactError as error:
        return Finding(Grade.BROKEN, "artifacts", f"{error}; check DALSTON_ARTIFACTS_URL, {url}")
    return Finding(Grade.OK, "artifacts", f"{url} can be used; all servers and nodes must name the same store")
