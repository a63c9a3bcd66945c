"""manage.py support_bundle: what helps is in the archive, and no secret and no payload."""

from __future__ import annotations

import io
import json
import os
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote, urlsplit, urlunsplit

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from pytest_django import Settings

from dalston_queue.audit.record import audited
from dalston_queue.broker import Broker
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.protocol.types import EngineState, NodeState
from dalston_queue.models import AlertState, ApiToken, DeadLetter, Duty, Task
from dalston_site.support import bundle
from dalston_site.support.secrets import masked
from tests.jobs import make
from tests.support import Spawned, reserve_port

PAYLOAD = "payload-7d1f"
SECRET = "s3cr:t/p@ss-9c2e"
QUOTED = quote(SECRET, safe="")


def unpacked(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        return {each.name.removeprefix("dalston-support/"): _text(archive, each) for each in archive}


def _text(archive: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    file = archive.extractfile(member)
    assert file is not None
    return file.read().decode()


def made(tmp_path: Path, *arguments: str) -> dict[str, str]:
    path = tmp_path / "bundle.tar.gz"
    call_command("support_bundle", "-o", str(path), *arguments, stdout=io.StringIO())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.stat().st_size < 1 << 20
    return unpacked(path)


@pytest.fixture
def planted(
    transactional_db: None, broker: Broker, settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> str:
    """Secrets and payloads wherever this system keeps text of others. Returns the text of a token."""
    for name in ("DALSTON_METRICS_TOKEN", "DALSTON_ALERT_WEBHOOK_TOKEN", "AWS_SECRET_ACCESS_KEY", "DALSTON_NEW_THING"):
        monkeypatch.setenv(name, SECRET)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"authorization={SECRET}")
    parts = urlsplit(os.environ["DATABASE_URL"])
    monkeypatch.setenv("DATABASE_URL", urlunsplit(parts._replace(netloc=f"dalston:{QUOTED}@db.example:5432")))
    monkeypatch.setenv("REDIS_URL", f"redis+sentinel://:{QUOTED}@a.example:26379,b.example:26379/main/0")
    monkeypatch.setenv("DALSTON_REDIS_URLS", f"*/high=redis://:{SECRET}@c.example:6379/0")
    settings.SECRET_KEY = SECRET
    settings.DALSTON_METRICS_TOKEN = SECRET
    task = make.single("echo", parameters={"audio": PAYLOAD})
    make.claim(task.job)
    Task.objects.filter(id=task.id).update(error=PAYLOAD, result={"text": PAYLOAD})
    task.events.update(message=PAYLOAD)
    now = timezone.now()
    DeadLetter.objects.create(task=task, queue="echo", cause="error", error=PAYLOAD, raw=PAYLOAD, created_at=now)
    problem = f"ValueError: {PAYLOAD}"
    Duty.objects.create(name="scanner", every_s=60, last_run_at=now, last_error=problem, duration_ms=1, repaired=0)
    AlertState.objects.create(
        name="DutyLate", severity="warning", value=1, text=f"late: {PAYLOAD}", since=now, fired_at=now, held_at=now
    )
    with audited("queue.pause", PAYLOAD, actor=PAYLOAD, reason=PAYLOAD, before={"was": PAYLOAD}) as action:
        action.after = {"is": PAYLOAD}
    beat = EngineBeat(
        engine_id="n.echo.0.boot", state=EngineState.CRASHLOOP, queues=("echo",), info={"why": f"it wrote {PAYLOAD}"}
    )
    broker.registry.beat_node("n", NodeState.ACTIVE, [beat], {"why": PAYLOAD})
    _, token = ApiToken.issue(task.project, PAYLOAD, ["submit"])
    logs = tmp_path / "state" / "logs"
    logs.mkdir(parents=True)
    ours = {"timestamp": "2026-01-01T00:00:00Z", "event": "task_claimed", "task_id": str(task.id), "more": PAYLOAD}
    lines = [json.dumps(ours), f"an author prints {PAYLOAD} and {SECRET}", json.dumps({"event": "x", "text": PAYLOAD})]
    lines.append(json.dumps({**ours, "event": "task_settled", "error_type": f"{PAYLOAD} {SECRET}", "queue": "echo"}))
    ids = f"trace_id=ab12 task_id={task.id} error_type={SECRET} more={PAYLOAD!r} queue=echo"
    lines.append(f"12:00:00 12:00:00.000001 [info     ] task_claimed                   [engine] {ids}")
    lines.append(f"12:00:00 12:00:00.000002 [info     ] {PAYLOAD} [engine] {ids}")
    (logs / "echo.0.log").write_text("\n".join(lines))
    return str(token)


@pytest.mark.keeps_keys
def test_no_secret_and_no_payload_is_in_the_archive(planted: str, tmp_path: Path) -> None:
    files = made(tmp_path, "--state-dir", str(tmp_path / "state"))
    for name, text in files.items():
        for forbidden in (PAYLOAD, SECRET, QUOTED, json.dumps(SECRET)[1:-1], planted):
            assert forbidden not in text, f"{forbidden} is in {name}: {text}"


@pytest.mark.keeps_keys
def test_what_helps_is_there(planted: str, tmp_path: Path) -> None:
    files = made(tmp_path, "--state-dir", str(tmp_path / "state"))
    assert not [name for name, text in files.items() if "could not be read" in text]
    versions = json.loads(files["versions.json"])
    assert versions["packages"]["Django"]
    settings = json.loads(files["settings.json"])
    assert settings["settings"]["DALSTON_STUCK_AFTER_S"] == 60.0
    assert settings["urls"]["DATABASE_URL"].startswith("postgres")
    assert "***@db.example:5432" in settings["urls"]["DATABASE_URL"]
    assert settings["urls"]["REDIS_URL"] == "redis+sentinel://***@a.example:26379,b.example:26379/main/0"
    assert "DALSTON_NEW_THING" in settings["variables that are set"]
    assert "DALSTON_NEW_THING" not in settings["settings"]
    assert json.loads(files["servers.json"])["redis"][0]["maxmemory_policy"] == "noeviction"
    assert "applied  dalston_queue.0001_initial" in files["migrations.txt"]
    assert [json.loads(line)["transition"] for line in files["events.jsonl"].splitlines()] == ["make_ready"]
    assert json.loads(files["audit.json"])["actions"][0]["action"] == "queue.pause"
    assert json.loads(files["alerts.jsonl"])["name"] == "DutyLate"
    assert json.loads(files["status.json"])["dead_letters"]["open"] == 1
    assert "The scanner failed: ValueError" in files["status.txt"]
    assert "redis: answers in" in files["doctor.txt"]
    *lines, rest = files["logs/echo.0.log"].splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["task_claimed", "task_settled", "task_claimed"]
    readable = json.loads(lines[-1])
    assert readable.keys() == {"event", "level", "logger", "trace_id", "task_id", "queue"}, "as development writes it"
    assert rest == "3 other lines are left out"
    assert set(files) - {"README.txt"} == set(files["README.txt"].split("\n\n")[-1].split())


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("", ""),
        ("postgres://ada:x@db:5432/dalston?sslpassword=y", "postgres://***@db:5432/dalston?***"),
        ("redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379/0"),
        ("rediss://:x@[::1]:6380/0", "rediss://***@[::1]:6380/0"),
        ("unix:///run/redis.sock", "unix:///run/redis.sock"),
        ("s3://bucket/prefix", "s3://bucket/prefix"),
        ("redis://:pa/ss@host/0", "set, not shown"),
        ("redis://:12/34@host/0", "set, not shown"),
        ("redis://ada:12/34@host/0", "set, not shown"),
        ("redis://:p?a@host", "set, not shown"),
        ("host=db password=x", "set, not shown"),
    ],
)
def test_an_url_is_shown_without_its_login(url: str, shown: str) -> None:
    assert masked(url) == shown


def test_another_file_is_never_overwritten(tmp_path: Path, db: None) -> None:
    path = tmp_path / "bundle.tar.gz"
    path.write_text("mine")
    with pytest.raises(CommandError, match="exists: name another file with -o"):
        call_command("support_bundle", "-o", str(path))
    assert path.read_text() == "mine"
    with pytest.raises(CommandError, match="No such file or directory"):
        call_command("support_bundle", "-o", str(tmp_path / "absent" / "bundle.tar.gz"))


def test_a_huge_part_is_cut() -> None:
    text = bundle.bounded("x" * (bundle.MAX_PART_BYTES + 10))
    assert text.endswith("10 more characters are left out\n")


def test_it_is_made_while_both_servers_are_away_and_on_a_node(
    spawn: Callable[..., Spawned], process_env: dict[str, str], tmp_path: Path
) -> None:
    nowhere = f"127.0.0.1:{reserve_port()}"
    server = {**process_env, "REDIS_URL": f"redis://{nowhere}/0", "DATABASE_URL": f"postgres://ada@{nowhere}/x"}
    node = {**process_env, "REDIS_URL": f"redis://{nowhere}/0"}
    for name, env in (("server", server), ("node", node)):
        path = tmp_path / f"{name}.tar.gz"
        process = spawn("manage.py", "support_bundle", "-o", str(path), env=env)
        assert process.wait(60) == 0, process.output
        assert "Traceback" not in process.output
        files = unpacked(path)
        assert "broken    redis" in files["doctor.txt"]
        assert ("status.txt" in files) is (name == "server")
