"""Task, as an engine author sees it: parameters, progress, time left, cancellation, files."""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dalston_queue.broker import Delivery
from dalston_queue.tracing import ids

from .files import Files, Inputs, Workspace
from .outcomes import TaskCancelled, text


@dataclass(slots=True, eq=False)
class Task:
    """One delivery of a task. `parameters` are the submitter's, `inputs` the parents' results by stage."""

    id: str
    job_id: str
    queue: str
    stage: str
    task_type: str
    attempt: int
    deliveries: int
    parameters: Mapping[str, Any]
    inputs: Mapping[str, Any]
    files: Files
    timeout: float = 0.0  # seconds from its start; 0: none
    deadline: float | None = None  # seconds of the wall clock, as time.time(); set when it starts
    trace_id: str = ""
    engine_id: str = ""
    on_progress: Callable[[Task], None] = lambda _: None
    fraction: float = 0.0
    message: str = ""
    progress_at: float = field(default_factory=time.monotonic)
    started_at: float = field(default_factory=time.time)
    cancel_event: threading.Event = field(default_factory=threading.Event)
    # for the runner
    delivery: Delivery = None  # type: ignore[assignment] # None only in an author's tests, which have no runner
    ends_at: float = math.inf  # its deadline by the monotonic clock
    lost: bool = False  # another engine has it: its outcome is dropped
    late: bool = False  # its deadline passed: it timed out, with any outcome

    @classmethod
    def of(
        cls,
        delivery: Delivery,
        limit: float | None,
        workspace: Workspace,
        on_progress: Callable[[Task], None],
        engine_id: str = "",
    ) -> Task:
        """`limit`: the manifest's timeout, in seconds."""
        message = delivery.message
        timeout = message.timeout_ms / 1000
        if limit:
            timeout = min(timeout, limit) if timeout else limit
        files = workspace.files_of(message.job_id, message.task_id, message.attempt, delivery.deliveries)
        return cls(
            id=message.task_id,
            job_id=message.job_id,
            queue=message.queue,
            stage=message.stage or message.queue,
            task_type=message.task_type,
            attempt=message.attempt,
            deliveries=delivery.deliveries,
            parameters=message.parameters or {},
            inputs=Inputs(message.inputs or {}, files),
            files=files,
            timeout=timeout,
            trace_id=message.trace_id,
            engine_id=engine_id,
            on_progress=on_progress,
            delivery=delivery,
        )

    def begin(self) -> None:
        """Sets start and deadline: the time that the task waited for a slot doesn't count."""
        self.started_at, self.progress_at = time.time(), time.monotonic()
        if self.timeout:
            self.deadline, self.ends_at = self.started_at + self.timeout, self.progress_at + self.timeout

    def progress(self, fraction: float, message: str = "") -> None:
        """Reports how far the task is (0 to 1). The watchdog waits for this, too.

        Accepts any types (a numpy number, a path ...): a report must not fail the task, nor the others of its process.
        """
        with contextlib.suppress(Exception):  # not a number: the fraction stays
            self.fraction = min(1.0, max(0.0, float(fraction)))
        self.message = text(message)[:500]
        self.progress_at = time.monotonic()
        self.on_progress(self)

    @property
    def cancelled(self) -> bool:
        """True once a cancel was requested or another engine has the task: return soon, the result won't count."""
        return self.cancel_event.is_set()

    def check(self) -> None:
        """Raises TaskCancelled in a cancelled task; the runner settles it as cancelled."""
        if self.cancelled:
            raise TaskCancelled(self.id)

    def wait(self, seconds: float) -> bool:
        """Sleeps. Returns True at once when the task is cancelled."""
        return self.cancel_event.wait(seconds)

    @property
    def traceparent(self) -> str:
        """The header of W3C Trace Context for what this task calls, so that it is below this run of the task."""
        return ids.traceparent(self.trace_id, ids.run(self.id, self.attempt, self.engine_id))

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the deadline, at which the task is cancelled and then its process ended; None without one."""
        return None if self.deadline is None else self.deadline - time.time()

    def artifact(self, ref: str) -> Path:
        """The stored file as a local one, to read only. It may be gone when the task has ended."""
        return self.files.fetch(ref)

    def put_artifact(self, path: Path | str) -> str:
        """Stores a file and returns its reference. The file is kept if the accepted result names the reference."""
        return self.files.store.put_path(Path(path)).ref

    @property
    def folder(self) -> Path:
        """A folder of this delivery alone. It is removed when the task has ended."""
        return self.files.folder
