"""Speech to text: what the queue adds to the engines' own work, and an hour of audio on one and on two engines."""

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from bench.harness.figures import Rounds, Section, Target
from bench.harness.fleet import wait_for
from bench.harness.processes import ROOT
from bench.harness.run import Command, Run
from bench.harness.servers import Database, private_postgres, private_valkey
from bench.harness.web import serving
from dalston_queue.artifacts import open_store
from dalston_queue.broker import connect
from dalston_queue.broker.protocol.types import EngineState
from dalston_site.embedded.guarded import guarded
from engines.audio.samples import RATE, write
from engines.merge.engine import Merge
from engines.prepare.decoding import decode
from engines.prepare.engine import Prepare
from engines.prepare.source import Limits, opened
from engines.sdk import Done, Engine
from engines.sdk.testing import run_task
from engines.transcribe.engine import Transcribe

PARTS = ("overhead", "hour")
SAMPLE = ROOT / "samples" / "hello.wav"
SHORT_S = 10.0
MAX_OVERHEAD_S, MAX_SHARE = 0.3, 0.6
READY_S = 300.0


class System:
    """Servers, a web process, an orchestrator and engines as processes of their own, one computing thread each."""

    def __init__(self, folder: Path, environment: dict[str, str], client: httpx.Client, stack: ExitStack) -> None:
        self.folder, self.client = folder, client
        self._environment, self._stack = environment, stack
        self._broker = connect(environment["REDIS_URL"], prefix=environment["DALSTON_REDIS_PREFIX"])
        self._engines = 0

    def start_engines(self, *names: str) -> None:
        """Returns when all are ready."""
        for name in names:
            self.start(f"engines/{name}/engine.py")
        self._engines += len(names)
        wait_for(lambda: self._ready() >= self._engines, READY_S, "the engines are ready")

    def start(self, *arguments: str) -> None:
        argv = guarded([sys.executable, *arguments], dies_with=signal.SIGKILL)
        log = self._stack.enter_context((self.folder / f"{secrets.token_hex(4)}.log").open("wb"))
        process = subprocess.Popen(argv, cwd=ROOT, env=self._environment, stdout=log, stderr=log)
        self._stack.callback(process.wait)
        self._stack.callback(process.kill)

    def _ready(self) -> int:
        return sum(beat.state is EngineState.READY for beat in self._broker.registry.engines())

    def transcribe(self, file: Path) -> float:
        """Seconds from the upload to the transcript in the answer."""
        began = time.monotonic()
        with file.open("rb") as content:
            answer = self.client.post("/audio/transcriptions", files={"file": content}, headers={"Prefer": "wait"})
        answer.raise_for_status()
        if "Friday" not in answer.json()["text"]:
            raise AssertionError(f"the transcript is wrong: {answer.text[:500]}")
        return time.monotonic() - began


@contextmanager
def system() -> Iterator[System]:
    with (
        tempfile.TemporaryDirectory(prefix="dalston-bench-", ignore_cleanup_errors=True) as name,
        private_valkey() as valkey,
        private_postgres() as postgres,
        ExitStack() as stack,
    ):
        folder = Path(name)
        environment = {
            **os.environ,
            "DALSTON_DEV": "1",
            "DJANGO_SETTINGS_MODULE": "dalston_site.settings",
            "DATABASE_URL": Database(postgres.url, 1).url,
            "REDIS_URL": valkey.url,
            "DALSTON_REDIS_PREFIX": "bench",
            "DALSTON_ARTIFACTS_URL": (folder / "artifacts").as_uri(),
            "DALSTON_TRANSCRIPTION_WAIT_S": "3600",
            "DALSTON_ENGINE_THREADS": "1",
        }
        _manage(environment, "migrate", "-v0")
        token = _manage(environment, "token", "create", "--name", "bench", "--project", "bench")
        web = stack.enter_context(serving("dalston_site.asgi:application", environment, "/healthz"))
        client = httpx.Client(
            base_url=f"http://127.0.0.1:{web.port}/v1",
            headers={"Authorization": f"Bearer {token}"},
            timeout=3600,
        )
        running = System(folder, environment, stack.enter_context(client), stack)
        running.start("manage.py", "runorchestrator")
        yield running


def _manage(environment: Mapping[str, str], *arguments: str) -> str:
    argv = [sys.executable, "-m", "django", *arguments]
    done = subprocess.run(argv, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def recording(folder: Path, seconds: float) -> Path:
    """The sample of the README, repeated, as 16 kHz mono FLAC."""
    with opened(SAMPLE, SAMPLE.name, Limits(60, 1)) as source:
        [channel] = decode(source, folder, lambda _: None, separate=False)
    once = channel.part(0.0, channel.duration)
    file = folder / f"{seconds:.0f}.flac"
    write(file, np.resize(once, int(seconds * RATE)))
    return file


class Reference:
    """The engines' own work: the same three engines in this process, one after the other, without a queue."""

    def __init__(self, folder: Path) -> None:
        self._store = folder / "reference"
        self._engines: list[Engine] = [Prepare(), Transcribe(), Merge()]
        for engine in self._engines:
            engine.load()
            engine.load = lambda: None  # type: ignore[method-assign] # once is enough

    def transcribe(self, file: Path) -> float:
        prepare, transcribe, merge = self._engines
        reference = open_store(self._store.as_uri()).put_path(file).ref
        began = time.monotonic()
        prepared = self._run(prepare, {"audio": reference, "filename": file.name}, {})
        results = {"prepare": prepared}
        *parts, last = prepared["$stages"]
        for part in parts:
            results[part["stage"]] = self._run(transcribe, part["parameters"], {})
        self._run(merge, last["parameters"], results)
        return time.monotonic() - began

    def _run(self, engine: Engine, parameters: Mapping[str, Any], inputs: Mapping[str, Any]) -> dict[str, Any]:
        outcome = run_task(engine, parameters, inputs=inputs, artifacts=self._store).outcome
        assert isinstance(outcome, Done), f"{type(engine).__name__}: {outcome}"
        return dict(outcome.result)


def overhead(running: System, rounds: int) -> Section:
    """In turns, so that a slow minute of the machine slows both."""
    file, reference = recording(running.folder, SHORT_S), Reference(running.folder)
    own, whole, added = (Rounds(smaller_is_better=True) for _ in range(3))
    for number in range(rounds + 1):
        times = reference.transcribe(file), running.transcribe(file)
        if number:  # the first round imports and warms up
            own.add(times[0])
            whole.add(times[1])
            added.add(times[1] - times[0])
    rows = [
        [name, f"{found.median * 1000:.0f} ms", f"{found.best * 1000:.0f} ms", f"{SHORT_S / found.median:.1f}"]
        for name, found in (("the engines' own work", own), ("upload to transcript, over HTTP", whole))
    ]
    rows.append(["added", f"{added.median * 1000:.0f} ms", f"{added.best * 1000:.0f} ms", ""])
    text = f"{added.median * 1000:.0f} ms beyond the engines' own work (target {MAX_OVERHEAD_S * 1000:.0f} ms)"
    return Section(
        f"A recording of {SHORT_S:.0f} s, {rounds} rounds",
        ["", "median", "best", "times real time"],
        rows,
        [Target(text, added.median < MAX_OVERHEAD_S)],
    )


def hour(running: System, minutes: float) -> Section:
    """With one engine for `transcribe`, then with two: chunks are transcribed at once. 8 minutes are 2 chunks, an hour
    is 15: of an odd number one engine does one more."""
    file = recording(running.folder, minutes * 60)
    one = running.transcribe(file)
    running.start_engines("transcribe")
    two = running.transcribe(file)
    share = two / one
    rows = [
        [name, f"{seconds:.1f} s", f"{minutes * 60 / seconds:.1f}", f"{seconds / one:.2f}"]
        for name, seconds in (("one engine", one), ("two engines", two))
    ]
    return Section(
        f"A recording of {minutes:g} minutes, chunks of 5 minutes, one computing thread for each engine",
        ["", "upload to transcript", "times real time", "share of one engine's time"],
        rows,
        [Target(f"two engines take {share:.2f} of the time of one (target {MAX_SHARE})", share < MAX_SHARE)],
    )


def main(arguments: list[str] | None = None) -> None:
    command = Command("transcription", __doc__)
    command.add_list("only", PARTS, "which parts")
    command.add_argument("--rounds", type=int, help="of the short recording")
    command.add_argument("--minutes", type=float, help="length of the long recording (60)")
    options = command.parse(arguments)
    run = Run("Postgres with fsync, Valkey with AOF everysec")
    with system() as running:
        running.start_engines("prepare", "transcribe", "merge")
        if "overhead" in options.only:
            run.add(overhead(running, options.rounds or (1 if options.small else 15)))
        if "hour" in options.only:
            run.add(hour(running, options.minutes or (8 if options.small else 60)))
    run.finish(options.json)


if __name__ == "__main__":
    main()
