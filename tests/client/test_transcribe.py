"""`dalston transcribe` against a real web process, with an engine that answers as the stages do."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from django.db import connections
from pytest_django import Settings

from dalston_client import Client
from dalston_client.cli.commands.transcribe.files import planned, write_whole
from dalston_client.cli.exits import Exit
from dalston_queue.broker import Delivery, connect
from dalston_queue.broker.protocol.messages import Completed, ErrorInfo, Failed, Outcome
from dalston_queue.broker.protocol.types import Cause
from dalston_queue.models import ApiToken, Job, Project
from tests.client.conftest import COMMAND, Shell
from tests.dashboard.transcription import make as made
from tests.orchestrator.support import Steps, engine
from tests.support import reserve_port, wait_until
from tests.web import Web

pytestmark = pytest.mark.django_db(transaction=True)
SRT = "1\n00:00:00,000 --> 00:00:03,000\nIt was the best of times,"


@dataclass
class Transcriber:
    """An orchestrator, and an engine of all stages. Names with `bad` are rejected, those with `slow` wait for `go`."""

    shell: Shell
    go: threading.Event = field(default_factory=threading.Event)

    def answer(self, task: Delivery) -> Outcome | None:
        name = str(task.message.parameters.get("filename", ""))
        if "slow" in name and not self.go.is_set():
            return None
        if "bad" in name:
            return Failed(ErrorInfo(message=f"{name} has no audio", type="Rejected", cause=Cause.REJECTED))
        return Completed({}) if task.message.queue == "align" else self.answers(task)

    def __post_init__(self) -> None:
        self.answers = made.answers(made.transcript())


@pytest.fixture
def transcriber(web: Web, settings: Settings) -> Iterator[Transcriber]:
    settings.DALSTON_REDIS_PREFIX = web.prefix
    settings.DALSTON_ARTIFACTS_URL = web.env["DALSTON_ARTIFACTS_URL"]
    token = ApiToken.issue(Project.objects.create(name="calls"), "laptop", ["submit", "read"])[1]
    found = Transcriber(Shell(DALSTON_URL=web.url, DALSTON_TOKEN=token))
    broker = connect(os.environ["REDIS_URL"], prefix=web.prefix)
    over = threading.Event()

    def work() -> None:
        steps = Steps(broker, "transcriber")
        with engine(broker, *made.QUEUES, capacity=64) as consumer:
            while not over.wait(0.02):
                steps.poll()
                consumer.claim()
                settled = [(task, answer) for task in consumer.held if (answer := found.answer(task))]
                consumer.exchange(settled, free=0)
                steps.drain()
        steps.reader.close()
        connections.close_all()

    worker = threading.Thread(target=work)
    worker.start()
    yield found
    over.set()
    worker.join(20)
    broker.close()


@pytest.fixture
def shell(transcriber: Transcriber) -> Shell:
    return transcriber.shell


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Recordings of different content."""
    for name in ("one.wav", "two.mp3", "bad.ogg", "slow.m4a"):
        (tmp_path / name).write_bytes(b"RIFF" + name.encode() * 50_000)
    return tmp_path


def test_each_recording_becomes_a_file_and_its_name_is_printed(shell: Shell, files: Path) -> None:
    out = files / "new" / "folder"
    done = shell.run("transcribe", f"{files}/one.wav", f"{files}/two.mp3", "--format", "srt", "-o", str(out))
    assert (done.code, sorted(done.stdout.splitlines())) == (0, [f"{out}/one.srt", f"{out}/two.srt"])
    assert (out / "one.srt").read_text().startswith(SRT)
    assert sorted(path.name for path in out.iterdir()) == ["one.srt", "two.srt"]
    assert (out / "one.srt").stat().st_mode & 0o777 == 0o644


def test_one_recording_and_standard_input_are_printed(shell: Shell, files: Path) -> None:
    words = " ".join(made.SENTENCES)
    one = shell.run("transcribe", f"{files}/one.wav")
    assert (one.code, " ".join(one.stdout.split()), one.stderr) == (0, words, "")
    with shell.start("transcribe", "-", "--format", "json", "--words") as process:
        # Not seekable, so it is copied: its key needs all of it.
        stdout, stderr = process.communicate("RIFF from a pipe", timeout=40)
    assert process.returncode == 0, stderr
    assert json.loads(stdout)["text"] == words
    assert Job.objects.latest("id").parameters["words"] is True
    again = shell.call("transcribe", f"{files}/one.wav", "--json")
    assert (again.code, again.json["file"], again.json["status"]) == (0, f"{files}/one.wav", "done")
    assert " ".join(again.json["transcript"].split()) == words


def test_a_second_run_skips_what_is_written_and_attaches_to_what_was_sent(shell: Shell, files: Path) -> None:
    command = ("transcribe", f"{files}/one.wav", f"{files}/two.mp3", "-o", str(files / "out"))
    assert shell.call(*command).code == 0
    (files / "out" / "two.txt").unlink()
    again = shell.call(*command)
    assert (again.code, again.stdout) == (0, f"{files}/out/two.txt\n")
    assert "out/one.txt is there already" in again.stderr
    assert Job.objects.count() == 2, "the job of the first run had the transcript"
    # The same content under another name is the same transcription; other options are another.
    (files / "copy.mp3").write_bytes((files / "two.mp3").read_bytes())
    assert shell.call("transcribe", f"{files}/copy.mp3").code == 0
    assert Job.objects.count() == 2
    assert shell.call("transcribe", f"{files}/copy.mp3", "--channels", "separate").code == 0
    assert Job.objects.count() == 3
    assert shell.call(*command, "--again").stdout.count("\n") == 2
    assert Job.objects.count() == 5


def test_one_that_fails_does_not_stop_the_others(shell: Shell, files: Path) -> None:
    out = files / "out"
    done = shell.call("transcribe", f"{files}/bad.ogg", f"{files}/nosuch.wav", f"{files}/one.wav", "-o", str(out))
    assert (done.code, done.stdout) == (Exit.FAILED, f"{out}/one.txt\n")
    assert f"dalston: {files}/bad.ogg: " in done.stderr and "bad.ogg has no audio" in done.stderr
    assert "nosuch.wav: It cannot be read: No such file or directory." in done.stderr
    assert [path.name for path in out.iterdir()] == ["one.txt"]
    as_json = shell.call("transcribe", f"{files}/bad.ogg", f"{files}/one.wav", "-o", str(out), "--json")
    lines = {Path(line["file"]).name: line for line in as_json.lines}
    assert (as_json.code, lines["one.wav"]["status"], lines["bad.ogg"]["status"]) == (1, "skipped", "failed")
    assert "has no audio" in lines["bad.ogg"]["error"] and lines["bad.ogg"]["id"]


def test_if_all_fail_alike_the_exit_code_says_how(shell: Shell, files: Path) -> None:
    assert shell.call("transcribe", f"{files}/one.wav", "--model", "nosuch").code == Exit.INVALID
    assert shell.call("transcribe", f"{files}/nosuch.wav").code == Exit.USAGE
    assert shell.call("transcribe", str(files)).code == Exit.USAGE
    assert shell.call("transcribe", f"{files}/bad.ogg").code == Exit.FAILED
    (files / "empty.wav").touch()
    empty = shell.call("transcribe", f"{files}/empty.wav")
    assert (empty.code, "empty.wav is empty" in empty.stderr) == (Exit.INVALID, True)
    refused = shell.call("transcribe", f"{files}/one.wav", f"{files}/two.mp3", "-o", str(files), DALSTON_TOKEN="dal_no")
    assert refused.code == Exit.REFUSED and refused.stderr.count("does not exist") == 1, "once, not per file"
    nowhere = {"DALSTON_URL": f"http://127.0.0.1:{reserve_port()}"}
    assert shell.call("--retry-timeout", "0.2", "transcribe", f"{files}/one.wav", **nowhere).code == Exit.UNREACHABLE


def test_what_would_lose_an_output_is_refused_before_anything_is_sent(shell: Shell, files: Path) -> None:
    several = shell.call("transcribe", f"{files}/one.wav", f"{files}/two.mp3")
    assert (several.code, "-o DIR" in several.stderr) == (Exit.USAGE, True)
    (files / "one.mp3").write_bytes(b"x")
    clash = shell.call("transcribe", f"{files}/one.wav", f"{files}/one.mp3", "-o", str(files / "out"))
    assert clash.code == Exit.USAGE and "would both become" in clash.stderr
    blocked = shell.call("transcribe", f"{files}/one.wav", "-o", f"{files}/one.mp3")
    assert blocked.code == Exit.USAGE and "cannot be made" in blocked.stderr
    assert not Job.objects.exists()


def test_ctrl_c_leaves_no_file_and_the_next_run_goes_on(transcriber: Transcriber, shell: Shell, files: Path) -> None:
    out = files / "out"
    command = ("transcribe", f"{files}/one.wav", f"{files}/slow.m4a", "-o", str(out))
    with shell.start(*command) as process:
        wait_until(lambda: (out / "one.txt").exists() and Job.objects.count() == 2, what="one is done, one runs")
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=40)
    assert process.returncode == Exit.INTERRUPTED
    assert "1 of 2 recordings done; 1 job still on the server. The same command again goes on from here." in stderr
    assert [path.name for path in out.iterdir()] == ["one.txt"]
    late = shell.call(*command, "--give-up-after", "0.5")
    assert (late.code, "not over after 0.5 s" in late.stderr) == (Exit.NOT_YET, True)
    transcriber.go.set()
    done = shell.call(*command)
    assert (done.code, done.stdout, Job.objects.count()) == (0, f"{out}/slow.txt\n", 2)


def test_ctrl_c_ends_an_upload(shell: Shell, files: Path) -> None:
    huge = files / "huge.wav"
    with huge.open("wb") as file:
        file.truncate(20 << 30)  # a hole: takes no space, but long to read
    with shell.start("transcribe", str(huge), "-o", str(files / "out")) as process:
        wait_until((files / "out").exists, what="it has started")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=40)
    assert process.returncode == Exit.INTERRUPTED
    assert not list((files / "out").iterdir()) and not Job.objects.exists()


def test_on_a_terminal_it_shows_bars_and_then_the_transcript(
    transcriber: Transcriber, shell: Shell, files: Path
) -> None:
    controller, terminal = pty.openpty()
    shown = b""

    def read() -> bool:
        nonlocal shown
        shown += os.read(controller, 65536)
        return True

    command = [str(COMMAND), "transcribe", f"{files}/slow.m4a"]
    env = {**shell.env, "TERM": "xterm", "COLUMNS": "100", "LINES": "30"}
    with subprocess.Popen(command, env=env, stdout=terminal, stderr=terminal, stdin=terminal) as process:
        os.close(terminal)
        wait_until(lambda: read() and b"slow.m4a" in shown and b"0%" in shown, what="a bar")
        transcriber.go.set()
        try:
            while read():
                pass
        except OSError:
            pass  # the terminal is closed
        assert process.wait(40) == 0
    os.close(controller)
    assert made.SENTENCES[0].encode() in shown


def test_an_output_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    output = tmp_path / "a.srt"
    output.mkdir()  # nothing can be renamed to it
    with pytest.raises(OSError, match="directory"):
        write_whole(output, "1")
    assert [path.name for path in tmp_path.iterdir()] == ["a.srt"]


def test_a_recording_that_is_newer_than_its_transcript_is_transcribed_again(tmp_path: Path) -> None:
    source, output = tmp_path / "a.wav", tmp_path / "a.txt"
    source.touch()
    output.touch()
    os.utime(source, (1, 1))
    assert planned([str(source)], tmp_path, "txt", again=False)[0].phase == "skipped"
    assert planned([str(source)], tmp_path, "txt", again=True)[0].phase == "waiting"
    os.utime(output, (0, 0))
    assert planned([str(source)], tmp_path, "txt", again=False)[0].phase == "waiting"


def test_from_python_a_recording_is_sent_waited_for_and_deleted(shell: Shell, files: Path) -> None:
    with Client(shell.env["DALSTON_URL"], shell.env["DALSTON_TOKEN"]) as client:
        with (files / "one.wav").open("rb") as file:
            sent = client.transcribe(file, "one.wav", language="en", priority="high")
        done = client.wait_for_transcription(sent["id"], timeout=30)
        assert (done["status"], done["text"]) == ("completed", " ".join(made.SENTENCES))
        assert client.export_transcription(sent["id"], "srt").startswith(SRT)
        assert [found["id"] for found in client.transcriptions(status="completed")] == [sent["id"]]
        assert "moonshine-tiny" in {model["id"] for model in client.models()}
        assert client.delete_transcription(sent["id"])["status"] == "deleted"
        assert list(client.transcriptions()) == []
