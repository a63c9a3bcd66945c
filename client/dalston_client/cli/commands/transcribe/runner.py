"""The run of `dalston transcribe`: a few threads upload, the main thread polls the jobs and fetches the transcripts.

A recording belongs to an uploader until the server has it, then to the main thread.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import IO, Any, cast
from uuid import uuid4

from dalston_client.cli.commands.transcribe.files import OVER, Phase, Recording, Watched, opened, write_whole
from dalston_client.cli.exits import Exit, exit_of
from dalston_client.client import Client
from dalston_client.errors import Busy, Conflict, DalstonError, Invalid, NotFound
from dalston_client.transcriptions import TranscriptFormat, Transcription
from dalston_client.watch import OVER as JOB_OVER

MIN_POLL_S, MAX_POLLS_PER_S = 1.0, 20.0
STOP_S = 2.0
"""How long Ctrl-C waits for the uploads to notice it."""
OF_ONE_RECORDING = (Invalid, NotFound, Conflict)
"""Errors that another recording need not have; the rest would meet each of them."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked of the server for every recording."""

    format: TranscriptFormat
    options: dict[str, Any]  # of Client.transcribe
    again: bool

    def key(self, digest: str) -> str:
        """The same content and options are the same transcription, whatever the file is called."""
        if self.again:
            return f"transcribe-{uuid4().hex}"
        known = json.dumps([digest, {**self.options, "priority": None}], sort_keys=True)
        return f"transcribe-{hashlib.sha256(known.encode()).hexdigest()}"


class _Stopped(Exception):
    pass


class Runner:
    def __init__(
        self,
        client: Client,
        wanted: Wanted,
        recordings: Iterable[Recording],
        finished: Callable[[Recording, str | None], None],
    ) -> None:
        """`finished` gets each recording once, with its transcript if that is for standard output."""
        self._client, self._wanted, self._finished = client, wanted, finished
        self._todo = deque(each for each in recordings if each.phase not in OVER)
        self._open = len(self._todo)
        self._sent: SimpleQueue[Recording] = SimpleQueue()
        self._waiting: deque[tuple[float, Recording]] = deque()  # and when it is polled next
        self._stop = threading.Event()

    def run(self, parallel: int, give_up_after: float | None) -> bool:
        """False: the time is up. Raises the DalstonError that ends the whole run."""
        end = None if give_up_after is None else time.monotonic() + give_up_after
        uploaders = [threading.Thread(target=self._upload_each, daemon=True) for _ in range(min(parallel, self._open))]
        for thread in uploaders:
            thread.start()
        try:
            while self._open:
                if end is not None and time.monotonic() >= end:
                    return False
                self._take_sent()
                self._poll_due()
        finally:
            self._stop.set()
            until = time.monotonic() + STOP_S
            for thread in uploaders:
                thread.join(max(0.0, until - time.monotonic()))
        return True

    # uploaders

    def _upload_each(self) -> None:
        while not self._stop.is_set():
            try:
                recording = self._todo.popleft()
            except IndexError:
                return
            try:
                self._upload(recording)
            except _Stopped:
                return
            except OSError as error:
                recording.failed(f"It cannot be read: {error.strerror or error}.", error)
            except Exception as error:  # noqa: BLE001  # the main thread raises it, or it would wait for ever
                recording.failed(str(error), error)
            self._sent.put(recording)

    def _upload(self, recording: Recording) -> None:
        def report(share: float) -> None:
            if self._stop.is_set():
                raise _Stopped
            recording.sent = share

        with opened(recording.name) as file:
            watched, before = Watched(file, report), Watched(file, report).stamp()
            recording.phase = Phase.READING
            key = self._wanted.key(watched.digest())
            found: Transcription | None = None
            if not self._wanted.again:
                # An earlier run may have sent it: a gigabyte need not be sent to learn that.
                found = next(self._client.transcriptions(limit=1, idempotency_key=key), None)
            if found is None:
                recording.phase, recording.sent = Phase.SENDING, 0.0
                source = cast(IO[bytes], watched)
                options = self._wanted.options
                found = self._client.transcribe(source, recording.filename, idempotency_key=key, **options)
                if watched.stamp() != before:
                    self._client.delete_transcription(found["id"])
                    recording.failed("It changed while it was being sent; try again.")
                    return
        recording.id, recording.phase = found["id"], Phase.SUBMITTED
        _show(recording, found)

    # the main thread

    def _take_sent(self) -> None:
        now = time.monotonic()
        next_poll = self._waiting[0][0] if self._waiting else now + MIN_POLL_S
        try:
            recording = self._sent.get(timeout=max(0.0, min(next_poll - now, MIN_POLL_S)))
        except Empty:
            return
        if recording.phase is Phase.FAILED:
            if recording.error and not isinstance(recording.error, (*OF_ONE_RECORDING, OSError)):
                raise recording.error
            self._end(recording)
        else:
            # At once: the transcript of an earlier run is there already.
            self._waiting.appendleft((time.monotonic(), recording))

    def _poll_due(self) -> None:
        while self._waiting and self._waiting[0][0] <= time.monotonic() and self._sent.empty():
            _, recording = self._waiting.popleft()
            if not self._poll(recording):
                pause = max(MIN_POLL_S, len(self._waiting) / MAX_POLLS_PER_S)
                self._waiting.append((time.monotonic() + pause, recording))

    def _poll(self, recording: Recording) -> bool:
        """Whether it is over."""
        try:
            found = self._client.transcription(recording.id)
            _show(recording, found)
            if found["status"] not in JOB_OVER:
                return False
            if found["status"] != "completed":
                recording.failed(found["error"] or f"It is {found['status']}.")
                self._end(recording)
                return True
            text = self._client.export_transcription(recording.id, self._wanted.format)
        except Busy:
            return False
        except OF_ONE_RECORDING as error:
            recording.failed(str(error), error)
            self._end(recording)
            return True
        self._keep(recording, text)
        return True

    def _keep(self, recording: Recording, text: str) -> None:
        if recording.output is not None:
            try:
                write_whole(recording.output, text)
            except OSError as error:
                problem = f"{recording.output} cannot be written: {error.strerror}."
                recording.failed(problem, error)
                self._end(recording)
                return
        recording.phase = Phase.DONE
        self._end(recording, text if recording.output is None else None)

    def _end(self, recording: Recording, text: str | None = None) -> None:
        self._open -= 1
        self._finished(recording, text)


def _show(recording: Recording, found: Transcription) -> None:
    recording.progress, recording.status = found["progress"], found["status"]
    recording.waits = str(found.get("waiting_for") or "")


def exit_of_all(recordings: Iterable[Recording]) -> Exit:
    """0 if none failed; the code of their failure if all that failed did so alike; otherwise 1."""
    codes = {_exit_of(each) for each in recordings if each.phase is Phase.FAILED}
    return Exit.OK if not codes else codes.pop() if len(codes) == 1 else Exit.FAILED


def _exit_of(recording: Recording) -> Exit:
    if isinstance(recording.error, DalstonError):
        return exit_of(recording.error)
    return Exit.USAGE if isinstance(recording.error, OSError) else Exit.FAILED
