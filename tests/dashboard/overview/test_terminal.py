"""manage.py status: the overview within 80 columns, with an exit code, also while a server is away."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from urllib.parse import urlsplit, urlunsplit

import pytest
from django.core.management import call_command
from django.utils import timezone

from dalston_queue.broker import Broker
from dalston_queue.dashboard.alerts.read import AlertLine
from dalston_queue.dashboard.overview.health import Tone
from dalston_queue.dashboard.overview.terminal import MAX_ROWS, WIDTH, document, lines, tone_of
from dalston_queue.dashboard.overview.values import InPostgres, LeaderLine, NodeLine, QueueLine
from dalston_queue.models import AlertState
from tests.api.errors.freezing import FreezingProxy
from tests.dashboard.overview.test_health import DUTIES, NOW, engine, overview, queue
from tests.jobs import make
from tests.support import Spawned, reserve_port

LONG = "n" * 60


def alert(severity: str = "critical", *, fires: bool = True, text: str = "nothing leads") -> AlertLine:
    since = NOW - timedelta(minutes=5)
    return AlertLine(1, "NoLeader", "no-leader", "", severity, text, since, since if fires else None, None)


def line(name: str) -> QueueLine:
    return QueueLine(name, 12, 2, 3, NOW - timedelta(minutes=7), 1, False, None, ())


def test_no_line_is_wider_than_80_columns_and_no_name_moves_the_cursor() -> None:
    view = overview(queue(waiting=5))
    hostile = f"\x1b[2J{LONG}\u202e\r\n"
    assert view.redis is not None
    redis = replace(
        view.redis,
        nodes=tuple(NodeLine(f"{hostile}{n}", "active", (engine(),), note=hostile) for n in range(100)),
        queues=tuple(line(f"{LONG}{n}") for n in range(100)),
    )
    postgres = replace(
        InPostgres((), 3, DUTIES),
        alerts=(alert(text=hostile * 5), alert("warning", fires=False)),
        leaders=(LeaderLine("orchestrator", LONG * 2, 1, NOW - timedelta(hours=3)),),
    )
    text = list(lines(replace(view, redis=redis, postgres=postgres)))
    assert max(map(len, text)) <= WIDTH
    assert not [char for each in text for char in each if char < " " or char in "\x1b\u202e"]
    shown = "\n".join(text)
    assert f"and {100 - MAX_ROWS} more" in shown
    assert "ALERTS  1 critical, 1 pending" in shown
    assert "DEAD LETTERS  3 open" in shown
    assert re.search(r"n{10,}… +12 +3 +7 min +1$", shown, re.MULTILINE), shown


@pytest.mark.parametrize(
    ("alerts", "tone"),
    [
        ((), Tone.OK),
        ((alert("critical", fires=False),), Tone.OK),
        ((alert("warning"),), Tone.WARN),
        ((alert("warning"), alert("critical")), Tone.BAD),
    ],
)
def test_the_worst_alert_that_fires_decides(alerts: tuple[AlertLine, ...], tone: Tone) -> None:
    view = overview(queue())
    assert tone_of(replace(view, postgres=replace(InPostgres((), 0, DUTIES), alerts=alerts))) is tone


def test_what_is_not_known_is_named_and_never_zero() -> None:
    view = overview(queue())
    without_redis = "\n".join(lines(replace(view, redis=None)))
    assert without_redis.count("not known: Redis does not answer") == 3
    without_postgres = "\n".join(lines(replace(view, postgres=None)))
    assert without_postgres.count("not known: Postgres does not answer") == 2
    assert document(replace(view, redis=None))["queues"] is None
    assert document(replace(view, postgres=None))["alerts"] is None
    assert tone_of(replace(view, redis=None)) is tone_of(replace(view, postgres=None)) is Tone.BAD


def run(*arguments: str) -> tuple[int, str]:
    out = io.StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("status", *arguments, stdout=out)
    assert isinstance(ended.value.code, int)
    return ended.value.code, out.getvalue()


@pytest.mark.django_db
@pytest.mark.keeps_keys
def test_the_command_shows_queues_and_alerts_and_watches(broker: Broker) -> None:
    make.single("transcribe")
    now = timezone.now()
    AlertState.objects.create(
        name="NoLeader", severity="critical", value=1, text="no leader", since=now, fired_at=now, held_at=now
    )
    code, text = run()
    assert code == 2
    assert "critical NoLeader" in text
    assert "No engine is ready" in text
    code, text = run("--json")
    found = json.loads(text)
    assert (code, found["status"], found["alerts"][0]["name"]) == (2, "bad", "NoLeader")
    assert found["leader"] == {"leads": False}
    code, text = run("--watch", "--count", "2", "--every", "0.1", "--json")
    assert [json.loads(each)["status"] for each in text.splitlines()] == ["bad", "bad"]


def test_a_bad_interval_is_refused() -> None:
    from django.core.management import CommandError

    for every in ("0", "soon", "nan"):
        with pytest.raises(CommandError, match="is no number of seconds from"):
            call_command("status", "--watch", f"--every={every}")


@pytest.mark.parametrize("away", ["redis", "postgres", "both"])
def test_the_command_works_while_a_server_is_away(
    spawn: Callable[..., Spawned], process_env: dict[str, str], database_url: str, away: str
) -> None:
    nowhere = f"127.0.0.1:{reserve_port()}"
    env = {**process_env, "DATABASE_URL": database_url}
    if away != "postgres":
        env["REDIS_URL"] = f"redis://{nowhere}/0"
    if away != "redis":
        parts = urlsplit(database_url)
        env["DATABASE_URL"] = urlunsplit(parts._replace(netloc=f"{parts.username}@{nowhere}"))
    process = spawn("manage.py", "status", env=env)
    assert process.wait(60) == 2
    assert ("Redis does not answer" in process.output) is (away != "postgres")
    assert ("Postgres does not answer" in process.output or away == "both") is (away != "redis")
    assert "Traceback" not in process.output
    assert "warning" not in process.output


def test_a_postgres_that_hangs_delays_the_command_by_seconds(
    spawn: Callable[..., Spawned], process_env: dict[str, str], database_url: str
) -> None:
    proxy = FreezingProxy(database_url)
    proxy.freeze()
    try:
        process = spawn("manage.py", "status", env={**process_env, "DATABASE_URL": proxy.url})
        assert process.wait(40) == 2
        assert "Postgres does not answer" in process.output
    finally:
        proxy.close()
