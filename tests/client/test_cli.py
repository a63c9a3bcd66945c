"""The commands of `dalston` on a running installation: their output and exit codes."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import termios
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from dalston_client import Client
from dalston_client.cli.exits import Exit
from tests.client.conftest import COMMAND, MISSING, Shell, make_token
from tests.e2e.conftest import Up
from tests.support import wait_until

CTRL_C = b"\x03"
DAG = {
    "name": "two-steps",
    "stages": [{"stage": "echo", "parameters": {"n": 1}}, {"stage": "last", "queue": "echo", "after": ["echo"]}],
}


@pytest.fixture
def dead_letter(client: Client) -> Callable[[str], str]:
    """Lets a task die with this message, and returns its dead letter."""

    def make(message: str) -> str:
        job_id = client.submit_task("fail", parameters={"how": "reject", "message": message})["job_id"]
        assert client.wait(job_id, timeout=40)["status"] == "failed"
        [letter] = client.dead_letters(error=message)
        return letter["dead_letter_id"]

    return make


def running_job(client: Client, seconds: float = 100) -> str:
    job_id = client.submit_task("sleep", parameters={"seconds": seconds})["job_id"]
    wait_until(lambda: client.job(job_id)["tasks"][0]["runs"], what="it runs")
    return job_id


def test_submit_waits_and_shows_the_result(shell: Shell) -> None:
    plain = shell.run("submit", "echo", "hello=world", "--wait", "n:=[1,2]")
    assert plain.code == 0
    assert '"hello": "world"' in plain.stdout and "completed" in plain.stdout
    options = ("--priority", "high", "--parameters", '{"a": 1, "b": 1}')
    as_json = shell.call("--json", "submit", "echo", *options, "b:=2", "--wait")
    assert (as_json.code, as_json.json["status"], as_json.json["priority"]) == (0, "completed", "high")
    assert as_json.json["tasks"][0]["result"] == {"a": 1, "b": 2}
    failed = shell.call("submit", "fail", "how=reject", "message=\x1b[31mred", "--wait")
    assert failed.code == Exit.FAILED
    assert "red" in failed.stdout and "\x1b" not in failed.stdout
    bare = shell.call("submit", "echo")
    assert bare.code == 0
    assert len(bare.stdout.strip()) == 36 and "dalston watch" in bare.stderr


def test_a_span_means_later_for_a_start_and_earlier_for_a_list(shell: Shell, client: Client) -> None:
    before = datetime.now(UTC)
    submitted = shell.call("submit", "echo", "--at", "6h", "--json")
    after = datetime.now(UTC)
    assert submitted.code == 0
    task = client.task(submitted.json["task_id"])
    start = datetime.fromisoformat(task["scheduled_at"] or "")
    assert before + timedelta(hours=6) <= start <= after + timedelta(hours=6)
    assert task["task_id"] in {it["task_id"] for it in shell.call("tasks", "--since", "1h", "--json").json}
    assert "in so much time from now" in " ".join(shell.call("submit", "--help").stdout.split())
    for words in (["submit", "echo", "--at", "99999999d"], ["jobs", "--since", "99999999d"]):
        refused = shell.call(*words, "--json")
        assert (refused.code, "is no time" in refused.error["detail"]) == (Exit.USAGE, True)
    assert shell.call("cancel", task["task_id"]).code == 0


def test_submit_takes_a_file_and_watch_shows_it_to_the_end(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    file.write_text(json.dumps(DAG))
    watched = shell.call("submit", "--file", str(file), "--watch", "--json")
    assert watched.code == 0
    events = watched.lines
    assert events[-1]["event"] == "end" and events[-1]["data"]["status"] == "completed"
    changes = [(it["data"]["stage"], it["data"]["to_status"]) for it in events if it["event"] == "task"]
    assert [stage for stage, status in changes if status == "completed"] == ["echo", "last"]
    ids = [it["id"] for it in events if it["event"] == "task"]
    assert ids == sorted(set(ids))
    again = shell.call("watch", events[-1]["data"]["job_id"])
    assert again.code == 0
    assert again.stdout.splitlines()[-1] == "two-steps completed"
    assert len(again.stdout.splitlines()) == len(changes) + 1  # plain lines, one per task event


def test_ctrl_c_leaves_the_job_running(shell: Shell, client: Client) -> None:
    job_id = running_job(client)
    with shell.start("watch", job_id) as process:
        assert process.stdout is not None
        assert "sleep" in process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=40)
    assert process.returncode == Exit.INTERRUPTED
    assert f"the job goes on. To stop it: dalston cancel {job_id}" in stderr
    assert client.job(job_id)["status"] == "running"
    task_id = client.job(job_id)["tasks"][0]["task_id"]

    late = shell.call("watch", job_id, "--give-up-after", "0.5")
    assert (late.code, "goes on" in late.stderr) == (Exit.NOT_YET, True)
    shown = shell.run("jobs", job_id)
    assert "running" in shown.stdout and ".demo." in shown.stdout
    assert "It runs on" in shell.run("why", task_id).stdout

    cancelled = shell.run("cancel", job_id, "--reason", "enough")
    assert cancelled.code == 0
    assert "1 running: sleep on" in cancelled.stdout
    assert client.wait(job_id, timeout=40)["status"] == "cancelled"
    again = shell.call("cancel", task_id, "--json")
    assert again.code == 0
    assert [(it["kind"], it["task_id"], it["status"]) for it in again.json] == [("task", task_id, "cancelled")]
    assert shell.call("watch", job_id).code == Exit.FAILED


@pytest.mark.parametrize("how", ["--wait", "--watch"])
def test_ctrl_c_while_waiting_for_a_submission_shows_its_job(shell: Shell, client: Client, how: str) -> None:
    before = {it["job_id"] for it in client.jobs()}
    for as_json in (["--json"], []):
        with shell.start("submit", "sleep", "seconds:=60", how, *as_json) as process:
            wait_until(lambda: {it["job_id"] for it in client.jobs()} - before, what="it is submitted")
            [job_id] = {it["job_id"] for it in client.jobs()} - before
            before.add(job_id)
            wait_until(lambda: client.job(job_id)["status"] == "running", what="it runs")  # noqa: B023
            process.send_signal(signal.SIGINT)
            _, stderr = process.communicate(timeout=40)
        assert process.returncode == Exit.INTERRUPTED
        assert f"dalston cancel {job_id}" in stderr
        if as_json:
            error = json.loads(stderr)["error"]
            assert (error["code"], error["exit_code"], error["job_id"]) == ("interrupted", Exit.INTERRUPTED, job_id)
        client.cancel_job(job_id)


def test_an_id_that_fails_does_not_stop_the_others(
    shell: Shell, client: Client, dead_letter: Callable[[str], str]
) -> None:
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    jobs = [client.submit_task("echo", scheduled_at=tomorrow)["job_id"] for _ in range(4)]
    mixed = shell.call("cancel", jobs[0], MISSING, jobs[1], "--json")
    assert (mixed.code, mixed.error["exit_code"], mixed.error["code"]) == (Exit.NOT_FOUND, Exit.NOT_FOUND, "not_found")
    assert [(it["job_id"], it["status"]) for it in mixed.json] == [(job, "cancelled") for job in jobs[:2]]
    assert [(it["id"], it["code"]) for it in mixed.error["failed"]] == [(MISSING, "not_found")]
    plain = shell.call("cancel", jobs[2], MISSING, "nonsense", jobs[3])
    assert (plain.code, plain.stdout.count(": cancelled\n")) == (Exit.NOT_FOUND, 2)
    assert [line.split(": ")[1] for line in plain.stderr.splitlines()] == [MISSING, "nonsense"]
    assert {client.job(job)["status"] for job in jobs} == {"cancelled"}

    letter = dead_letter("to be let go")
    gone = shell.call("dead-letters", "discard", MISSING, letter, "--yes", "--json")
    assert (gone.code, gone.error["code"]) == (Exit.NOT_FOUND, "not_found")
    assert [(it["dead_letter_id"], it["discarded"]) for it in gone.json] == [(letter, True)]
    wrong = shell.call("cancel", *jobs[:2], "--json", DALSTON_TOKEN="dal_wrong")
    assert (wrong.code, len(wrong.error["failed"]), wrong.stdout) == (Exit.REFUSED, 1, "")  # the second is not tried


def on_a_terminal(shell: Shell, *arguments: str, keys: bytes = b"", after: bytes = b"") -> tuple[int, str]:
    """What a person sees: the command on a pseudo terminal. `keys` are pressed when `after` is on the screen."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (40, 120))
    env = {**shell.env, "TERM": "xterm-256color"}
    with subprocess.Popen([COMMAND, *arguments], env=env, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        seen, pressed = b"", not keys
        while True:
            try:
                chunk = os.read(ours, 65536)
            except OSError:  # the last process has closed its side
                break
            seen += chunk
            if not pressed and after in seen:
                pressed = True
                if keys == CTRL_C:  # a terminal turns it into this
                    process.send_signal(signal.SIGINT)
                else:
                    os.write(ours, keys)
        code = process.wait(40)
    os.close(ours)
    return code, seen.decode()


def test_on_a_terminal_watch_draws_a_bar_per_stage_and_q_leaves_top(shell: Shell, client: Client) -> None:
    job_id = running_job(client, 60)
    code, seen = on_a_terminal(shell, "watch", job_id, keys=CTRL_C, after=b"of 60.0 s")
    assert code == Exit.INTERRUPTED
    assert "whole job" in seen and "the job goes on" in seen
    assert "\x1b[?25h" in seen  # the cursor is back
    client.cancel_job(job_id)
    code, seen = on_a_terminal(shell, "top", "--every", "20", keys=b"q", after=b"q quits")
    assert code == 0
    assert "demo.0." in seen and "\x1b[?1049l" in seen  # and so is the screen
    _, seen = on_a_terminal(Shell(**shell.env, NO_COLOR="1"), "jobs", "--name", "sleep")
    assert job_id in seen and "\x1b[3" not in seen


def test_lists_are_plain_columns_for_people_and_json_for_programs(shell: Shell, client: Client) -> None:
    job_id = client.submit_task("echo", parameters={"user": {"id": 42}}, wait=30)["job_id"]
    jobs = shell.call("jobs", "--status", "completed", "--since", "1h")
    assert (jobs.code, job_id in jobs.stdout, jobs.stdout.startswith("job ")) == (0, True, True)
    tasks = shell.run("tasks", "--payload", "user.id:42")
    assert (tasks.code, len(tasks.stdout.splitlines())) == (0, 2)
    one = shell.call("tasks", client.job(job_id)["tasks"][0]["task_id"])
    assert "completed" in one.stdout and '"id": 42' in one.stdout
    [newest] = shell.call("tasks", "--stage", "echo", "--limit", "1", "--json").json
    assert newest["stage"] == "echo"
    named = {"queues", "workers", "throughput", "lanes", "recovery", "ageing", "more_queues", "more_waiting"}
    assert set(shell.run("stats", "--json").json) == named
    assert "slots in use" in shell.call("stats").stdout
    top = shell.run("top")
    assert (top.code, "slots in use" in top.stdout, "demo.0." in top.stdout) == (0, True, True)
    samples = shell.call("top", "--json", "--count", "2", "--every", "0.2").lines
    assert [set(sample) for sample in samples] == [{"stats", "streams", "nodes"}] * 2


def test_dead_letters_are_shown_counted_replayed_and_discarded(
    shell: Shell, dead_letter: Callable[[str], str], client: Client
) -> None:
    letter, other = dead_letter("first of two"), dead_letter("second of two")
    listed = shell.run("dead-letters", "list", "--queue", "fail", "--json").json
    assert {letter, other} <= {it["dead_letter_id"] for it in listed}
    assert "fingerprint" in shell.call("dead-letters", "list", "--groups").stdout
    assert "first of two" in shell.call("dead-letters", "show", letter).stdout
    counted = shell.call("dead-letters", "replay", "--error", "of two", "--dry-run", "--json").json
    assert (counted["matched"], counted["replayed"]) == (2, 0)
    unsure = shell.call("dead-letters", "replay", letter)
    assert (unsure.code, "Nothing was changed: add --yes" in unsure.stderr) == (Exit.USAGE, True)
    for action in ("replay", "discard"):
        refused = shell.call("dead-letters", action, letter, "--json")
        assert (refused.code, refused.stdout, refused.error["code"], refused.error["exit_code"]) == (2, "", "usage", 2)
        assert refused.error["detail"].endswith("Nothing was changed: add --yes.")
    for name, newer, older in (("--since", 2, 0), ("--before", 0, 2)):
        for when, count in (("1h", newer), (f"{datetime.now(UTC).year + 1}-01-01T00:00:00Z", older)):
            words = ("--error", "of two", name, when, "--json")
            assert len(shell.call("dead-letters", "list", *words).json) == count
            assert shell.call("dead-letters", "replay", "--dry-run", *words).json["matched"] == count

    fixed = ("--parameters", '{"how": "reject", "message": "third"}', "--reason", "fixed")
    replayed = shell.run("dead-letters", "replay", letter, "--yes", "--json", *fixed)
    assert (replayed.code, replayed.json["replayed"]) == (0, 1)
    again = shell.call("dead-letters", "replay", letter, "--yes")
    assert (again.code, again.stdout) == (0, "0 replayed, 1 already replayed.\n")
    made = shell.call(
        "dead-letters", "replay", "--error", "second of two", "--yes", "--json", "--rate", "60", "--undo", "60"
    )
    batch = made.json["replay_batch_id"]
    assert (made.code, made.json["matched"], made.json["state"]) == (0, 1, "waiting")
    assert "waiting" in shell.call("dead-letters", "batches").stdout
    assert shell.call("dead-letters", "undo", batch, "--json").json["outcome"] == "undone"
    assert shell.call("dead-letters", "undo", batch, "--json").code == Exit.CONFLICT

    gone = shell.run("dead-letters", "discard", other, "--yes", "--reason", "not needed", "--json")
    assert (gone.code, gone.json[0]["discarded"]) == (0, True)
    assert client.dead_letter(other)["discarded_at"] is not None


def test_commands_to_a_node(shell: Shell, client: Client) -> None:
    [node] = client.nodes()
    name = node["node_id"]
    assert name in shell.call("nodes").stdout
    scaled = shell.run("nodes", "scale", name, "demo", "2", "--json", "--wait", "30")
    assert (scaled.code, scaled.json["state"]) == (0, "done"), scaled

    def demo_engines() -> list[str]:
        return [engine["engine_id"] for engine in client.nodes()[0]["engines"] if ".demo." in engine["engine_id"]]

    wait_until(lambda: len(demo_engines()) == 2, what="two engines of demo")
    failed = shell.call("nodes", "restart", name, "nosuch")
    assert (failed.code, "nosuch" in failed.stdout) == (Exit.FAILED, True)
    assert shell.call("nodes", "cordon", name, "--reason", "check it").code == 0
    assert shell.call("nodes", "uncordon", name).code == 0
    assert shell.call("nodes", "forget", name).code == Exit.CONFLICT  # it lives
    logs = shell.run("logs", name, "demo.0", "--lines", "1000")
    assert logs.code == 0 and "starts" in logs.stdout
    assert shell.call("logs", name, "nosuch.0", "--json").code == Exit.NOT_FOUND


def test_a_worker_over_http_is_drained_and_resumed(shell: Shell, up: Up, client: Client) -> None:
    headers = {"Authorization": f"Bearer {make_token(up, 'demo', 'worker')}"}
    with httpx.Client(
        base_url=f"{up.env['DALSTON_URL']}/api/v1/internal/workers/", headers=headers, timeout=40
    ) as http:
        worker_id = http.post("register", json={"stages": ["elsewhere"]}).json()["worker_id"]
        drained = shell.call("nodes", "drain-worker", worker_id, "--reason", "a new disk")
        assert (drained.code, drained.stdout) == (0, f"{worker_id} drains.\n")
        again = shell.call("nodes", "drain-worker", worker_id)
        assert (again.code, again.stdout) == (0, f"{worker_id} drains, as before.\n")
        assert http.post(f"{worker_id}/heartbeat", json={"held": []}).json()["should_drain"] is True
        assert "draining" in shell.call("nodes").stdout
        assert shell.call("nodes", "resume-worker", worker_id, "--json").json["should_drain"] is False
        http.delete(worker_id).raise_for_status()
    assert shell.call("nodes", "drain-worker", worker_id).code == Exit.NOT_FOUND


def test_a_queue_is_paused_and_resumed(shell: Shell, client: Client) -> None:
    client.submit_task("echo", wait=30)
    assert "paused" in shell.run("streams", "pause", "echo", "--reason", "try").stdout
    assert "paused" in shell.call("streams").stdout
    resumed = shell.call("streams", "resume", "echo", "--json").json
    assert resumed == {"queue": "echo", "paused": False, "changed": True, "engines_notified": True}
    slip = shell.call("streams", "pause", "ecoh")
    assert (slip.code, "Did you mean echo?" in slip.stderr) == (Exit.NOT_FOUND, True)
    assert "add --new." in slip.stderr
    assert shell.call("streams", "pause", "later", "--new").code == 0
    assert shell.call("streams", "resume", "later").code == 0


def test_limits_are_set_listed_and_removed(shell: Shell, client: Client) -> None:
    job = shell.run("submit", "echo", "--concurrency-key", "42", "--wait", "--json").json
    assert [task["concurrency_key"] for task in job["tasks"]] == ["42"]
    scope = ("--queue", "limited", "--project", job["project"], "--concurrency-key", "*")
    made = shell.call("limits", "set", *scope, "--in-flight", "3", "--reason", "three licences", "--json").json
    assert (made["max_in_flight"], made["changed"]) == (3, True)
    assert "as it was" in shell.call("limits", "set", *scope, "--in-flight", "3").stdout
    listed = shell.call("limits", "list", "--queue", "limited").stdout
    assert "limited" in listed and "each" in listed and "0 of 3" in listed
    nothing = shell.call("limits", "set", "--queue", "limited")
    assert (nothing.code, "max_in_flight" in nothing.stderr) == (Exit.INVALID, True)
    removed = shell.call("limits", "remove", str(made["limit_id"]))
    assert f"queue limited, project {job['project']}, each key" in removed.stdout
    assert shell.call("limits", "remove", str(made["limit_id"])).code == Exit.NOT_FOUND


def test_a_weight_is_shown_and_set(shell: Shell, client: Client) -> None:
    project = client.job(client.submit_task("echo", wait=30)["job_id"])["project"]
    assert f"{project} has weight 3" in shell.call("limits", "weight", project, "3").stdout
    assert "had this weight before" in shell.call("limits", "weight", project, "3").stdout
    assert shell.call("limits", "weight", project, "1", "--json").json["changed"] is True
    assert shell.call("limits", "weight", "nosuch").code == Exit.NOT_FOUND
