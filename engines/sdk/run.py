"""A task in a worker: the claim that it is for, when it must be over, and what it comes to."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dalston_queue.broker import Delivery
from dalston_queue.broker.protocol import messages

from .outcomes import Outcome
from .settlement import settlement, timed_out
from .task import Task


@dataclass(slots=True, eq=False)
class Run:
    claimed: Delivery
    task: Task
    started: float  # by the monotonic clock, as the next
    ends_at: float | None
    timeout: float
    lost: bool = False  # given to another engine: its outcome is dropped
    late: bool = False  # its deadline passed: whatever it returns, it timed out

    @classmethod
    def of(cls, claimed: Delivery, limit: float | None, artifacts: Path, on_progress: Callable[[Task], None]) -> Run:
        """Its clock runs from here. `limit`: the longest that the manifest lets a task run."""
        message = claimed.message
        timeout = message.timeout_ms / 1000
        if limit:
            timeout = min(timeout, limit) if timeout else limit
        task = Task(
            id=message.task_id,
            job_id=message.job_id,
            queue=message.queue,
            stage=message.stage or message.queue,
            task_type=message.task_type,
            attempt=message.attempt,
            deliveries=claimed.deliveries,
            parameters=message.parameters or {},
            inputs=message.inputs or {},
            deadline=time.time() + timeout if timeout else None,
            trace_id=message.trace_id,
            artifacts_root=artifacts,
            on_progress=on_progress,
        )
        started = time.monotonic()
        return cls(claimed, task, started, started + timeout if timeout else None, timeout)

    def settled_as(self, outcome: Outcome, max_result_bytes: int) -> messages.Outcome:
        return timed_out(self.timeout) if self.late else settlement(outcome, max_result_bytes)
