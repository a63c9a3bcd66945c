"""What an engine author sees of a task: its input, its time left, whether it was cancelled, and where to put files."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .outcomes import TaskCancelled
from .text import text


@dataclass(slots=True)
class Task:
    """One run of one task. `parameters` are the submitter's, `inputs` the parents' results by stage."""

    id: str
    job_id: str
    queue: str
    stage: str
    task_type: str
    attempt: int
    deliveries: int
    parameters: Mapping[str, Any]
    inputs: Mapping[str, Any]
    deadline: float | None = None  # seconds of the wall clock, as time.time()
    trace_id: str = ""
    artifacts_root: Path = Path("artifacts")
    on_progress: Callable[[Task], None] = lambda _: None
    fraction: float = 0.0
    message: str = ""
    progress_at: float = field(default_factory=time.monotonic)
    started_at: float = field(default_factory=time.time)
    cancel_event: threading.Event = field(default_factory=threading.Event)

    def progress(self, fraction: float, message: str = "") -> None:
        """Says how far the task is (0 to 1). It is also the sign of life that the watchdog waits for.

        Takes what comes (a numpy number, a path ...): a report must not cost the task, nor the others of its process.
        """
        with contextlib.suppress(Exception):  # what is no number leaves it where it was
            self.fraction = min(1.0, max(0.0, float(fraction)))
        self.message = text(message)[:500]
        self.progress_at = time.monotonic()
        self.on_progress(self)

    @property
    def cancelled(self) -> bool:
        """True once somebody asked to stop it, or it was given to another engine: return soon, nothing will count."""
        return self.cancel_event.is_set()

    def check(self) -> None:
        """Leaves a cancelled task by raising; the runner knows what that means."""
        if self.cancelled:
            raise TaskCancelled(self.id)

    def wait(self, seconds: float) -> bool:
        """Sleeps, but wakes at once when the task is cancelled, and then says True."""
        return self.cancel_event.wait(seconds)

    @property
    def seconds_left(self) -> float | None:
        """Until the deadline, at which the supervisor ends the task; None without one."""
        return None if self.deadline is None else self.deadline - time.time()

    @property
    def artifacts(self) -> Path:
        """A folder of this run alone: attempt and delivery are in its path, so a late zombie never writes into it."""
        path = self.artifacts_root / self.job_id / self.id / f"{self.attempt}-{self.deliveries}"
        path.mkdir(parents=True, exist_ok=True)
        return path
