"""Each attack of `./dev bench abuse` in small, beside a second project: it stays under 3 × its quiet latency.

The attacks are those of bench/attacks/, at full strength for a second or two. What they did is checked as well: an
attack that does nothing proves nothing.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

import django.test
import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from bench.abuse import ATTACKS, attack, measure
from bench.attacks import Target
from bench.harness.installation import node_user
from dalston_queue.models import ApiToken, Project, WebhookSecret
from tests.support import Spawned, keeps_time, wait_until
from tests.web import ROOT, Web, environment

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.keeps_keys, pytest.mark.alone]
MAX_RATIO = 3.0
ROUNDS = 3
ALWAYS = ("large-batches", "many-requests", "pipelined-requests")
"""One of each kind that held others up: long requests, many at a time, and many that need no turn. The others are slow
tests."""
NEEDS_NO_ENGINE = pytest.mark.parametrize("name", ALWAYS)
FROM_START_TO_END = pytest.mark.parametrize("name", list(ATTACKS))


@pytest.fixture(autouse=True)
def own_broker() -> None:
    """The servers have a key prefix of their own."""


def _works(web: Web) -> bool:
    """Whether the process uses a tenth of a processor or more."""

    def used() -> int:
        fields = Path(f"/proc/{web.process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    before = used()
    time.sleep(0.2)
    return (used() - before) / os.sysconf("SC_CLK_TCK") > 0.02


@contextmanager
def attacked(web: Web) -> Iterator[Target]:
    """A project of the attacker's, a viewer and a user of Redis."""
    project = Project.objects.create(name="attacker")
    WebhookSecret.issue(project, timezone.now())
    browser = django.test.Client()
    browser.force_login(User.objects.create_user("viewer", password="of the test"))
    yield Target(
        web.port, ApiToken.issue(project, "attacker", ["read", "submit"])[1], browser.cookies["sessionid"].value,
        os.environ["REDIS_URL"], node_user(os.environ["REDIS_URL"]), web.prefix,
    )  # fmt: skip
    wait_until(lambda: not _works(web), what="what the attacker has sent is over")  # it writes rows


@pytest.fixture
def target(web: Web, db: None) -> Iterator[Target]:
    with attacked(web) as found:
        yield found


@pytest.fixture
def other(db: None) -> str:
    return ApiToken.issue(Project.objects.create(name="other"), "other", ["read", "submit"])[1]


@pytest.fixture
def whole(db: None, tmp_path: Path) -> Iterator[Target]:
    """A web process, an orchestrator and an engine, which may call this machine."""
    env = {**environment(), "DALSTON_WEBHOOK_ALLOWED_NETWORKS": "127.0.0.0/8"}
    python = sys.executable
    web = Web(env, tmp_path / "web")
    engine = [python, "-m", "engines.sdk", "run", "engines/demo/engine.yaml"]
    argvs = {"orchestrator": [python, "manage.py", "runorchestrator"], "engine": engine}
    started = [web.process, *(Spawned(argv, tmp_path / name, env, ROOT) for name, argv in argvs.items())]
    try:
        with attacked(web) as found:
            yield found
    finally:
        for process in reversed(started):
            process.reap()
        shutil.rmtree(urlsplit(env["DALSTON_ARTIFACTS_URL"]).path)


def ratios(name: str, target: Target, other: str, seconds: float, *, wait: bool) -> dict[str, float]:
    """By kind of request, the median over rounds of the latency beside the attack to that before it."""

    def rounds() -> list[dict[str, float]]:
        found = [measure(target.port, other, seconds, wait=wait) for _ in range(ROUNDS)]
        return [{kind: median(took) for kind, took in each.items()} for each in found]

    measure(target.port, other, seconds, wait=wait)
    quiet = rounds()
    with attack(name, target):
        time.sleep(1)
        attacked = rounds()
    return {
        kind: median(during[kind] / before[kind] for before, during in zip(quiet, attacked, strict=True))
        for kind in quiet[0]
    }


@NEEDS_NO_ENGINE
def test_requests_of_another_project_stay_quick(name: str, target: Target, other: str) -> None:
    keeps_time(MAX_RATIO, lambda: max(ratios(name, target, other, 0.3, wait=False).values()))


@pytest.mark.slow
@pytest.mark.timeout(120)
@FROM_START_TO_END
def test_requests_and_tasks_of_another_project_stay_quick(name: str, whole: Target, other: str) -> None:
    keeps_time(MAX_RATIO, lambda: max(ratios(name, whole, other, 1.0, wait=True).values()))
