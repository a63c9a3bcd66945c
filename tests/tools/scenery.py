"""Simulated GPU nodes for the screenshots: they send heartbeats, claim tasks, report progress, complete and fail.

Their protocol is the real one (a Consumer, heartbeats through the registry), so everything else on the pages is real,
too. Only the samples of the last hour are invented.
"""

from __future__ import annotations

import math
import random
import threading
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Self

from dalston_queue.broker import Broker, Consumer, Delivery
from dalston_queue.broker.nodes.registry import EngineBeat
from dalston_queue.broker.protocol.messages import Completed, ErrorInfo, Failed, Outcome
from dalston_queue.broker.protocol.types import Cause, EngineState, NodeState
from dalston_queue.broker.views.snapshot import LaneStats

LASTS_S = {"prepare": 0.5, "diarize": 240.0, "transcribe": 180.0, "merge": 0.5}
GPUS = {"gpu-01": 2, "gpu-02": 1}
ENGINES = {
    "gpu-01": ("prepare.0", "transcribe.0", "transcribe.1", "merge.0"),
    "gpu-02": ("diarize.0", "diarize.1", "transcribe.0"),
}
OOM = "CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has 22.03 GiB of which 512.00 MiB are free"

TRACEBACK = f"""Traceback (most recent call last):
  File "/opt/engines/diarize/engine.py", line 61, in run
    turns = self.model(task.parameters["file"])
torch.OutOfMemoryError: {OOM}"""


@dataclass
class SimulatedEngine:
    """One engine: its running tasks, and when each began."""

    node: str
    slot: str
    consumer: Consumer
    began: dict[str, float] = field(default_factory=dict)
    exits: int = 0

    @property
    def queue(self) -> str:
        return self.slot.partition(".")[0]

    def step(self) -> None:
        now = time.monotonic()
        settled = [(task, outcome) for task in self.consumer.held if (outcome := self._outcome(task, now)) is not None]
        self.consumer.exchange(settled)
        for task in self.consumer.held:
            self.began.setdefault(task.task_id, now)
        self.consumer.renew_all({task.task_id: self._progress(task) for task in self.consumer.held})

    def heartbeat(self) -> EngineBeat:
        now_ms = int(time.time() * 1000)
        tasks = [
            {"task_id": task.task_id, "queue": self.queue, "attempt": task.attempt, "fraction": self._share(task),
             "started_at_ms": now_ms - int(self._age(task) * 1000), "deadline_ms": now_ms + 420_000}
            for task in self.consumer.held
        ]  # fmt: skip
        info: dict[str, Any] = {
            "slot": self.slot, "engine": self.queue, "version": "2.1.0", "pid": 4000 + hash(self.slot) % 900,
            "tasks": tasks, "running": len(tasks), "started_at_ms": now_ms - 5_400_000, "exits": self.exits,
            "cpu_percent": 40 + 30 * random.random(), "memory_mib": 3_000 + 200 * random.random(),
        }  # fmt: skip
        if self.exits:
            text = f"exit code 1; its log says: torch.OutOfMemoryError: {OOM}"
            info["last_exits"] = [
                {"engine_id": f"{self.consumer.engine_id}-old", "at_ms": now_ms - 5_400_000, "kind": "cuda_oom",
                 "text": text, "code": 1}
            ]  # fmt: skip
        return EngineBeat(
            engine_id=self.consumer.engine_id, state=EngineState.READY, queues=(self.queue,), capacity=2, info=info
        )

    def _outcome(self, task: Delivery, now: float) -> Outcome | None:
        if task.message.parameters.get("broken"):
            return Failed(ErrorInfo(message=OOM, type="OutOfMemoryError", cause=Cause.GPU_OOM, traceback=TRACEBACK))
        if now - self.began.get(task.task_id, now) < LASTS_S[self.queue]:
            return None
        return Completed({"minutes": 30, "language": "en"})

    def _age(self, task: Delivery) -> float:
        return time.monotonic() - self.began.get(task.task_id, time.monotonic())

    def _share(self, task: Delivery) -> float:
        return min(0.99, 0.1 + self._age(task) / LASTS_S[self.queue])

    def _progress(self, task: Delivery) -> dict[str, Any]:
        share = self._share(task)
        return {"fraction": round(share, 2), "message": f"minute {round(30 * share)} of 30"}


class Scenery:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scenery")
        self.failed: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            engines = [self._engine(node, slot) for node, slots in ENGINES.items() for slot in slots]
            engines[1].exits = 2
            sampled = 0
            while not self._stop.wait(0.5):
                for engine in engines:
                    engine.step()
                for node in ENGINES:
                    self._beat(node, [engine for engine in engines if engine.node == node])
                lanes = [lane for queue in self._broker.snapshot().queues for lane in queue.lanes]
                if len(lanes) > sampled:
                    self._invent_samples(lanes)
                    sampled = len(lanes)
        except BaseException as error:
            self.failed = error
            raise

    def _engine(self, node: str, slot: str) -> SimulatedEngine:
        consumer = Consumer(self._broker, f"{node}.{slot}.7c1e04", [slot.partition(".")[0]], capacity=2)
        consumer.open()
        return SimulatedEngine(node, slot, consumer)

    def _beat(self, node: str, engines: list[SimulatedEngine]) -> None:
        devices = [
            {"uuid": f"GPU-{node}-{index}", "index": index, "name": "NVIDIA L4", "total_mib": 23034,
             "used_mib": 14_200 + random.randrange(600), "utilisation": random.randrange(78, 97),
             "temperature": random.randrange(66, 71), "power_w": random.randrange(62, 71)}
            for index in range(GPUS[node])
        ]  # fmt: skip
        info = {"pid": 812, "labels": {"zone": "eu-west-1b"}, "gpus": {"driver": "580.82", "devices": devices}}
        self._broker.registry.beat_node(node, NodeState.ACTIVE, [engine.heartbeat() for engine in engines], info)

    def _invent_samples(self, lanes: list[LaneStats]) -> None:
        """In this thread: Playwright's loop runs in the other, and Django refuses its ORM there."""
        from django.utils import timezone

        from dalston_queue.models import Sample

        minute = timezone.now().replace(second=0, microsecond=0)
        rows = []
        for back in range(61):
            at, wave = minute - timedelta(minutes=back), math.sin(back / 9) + random.random() / 3
            for node, count in GPUS.items():
                for index in range(count):
                    numbers = {
                        "used_mib": 14_300 + round(4000 * wave), "utilisation": min(100, 66 + round(30 * wave)),
                        "temperature": 62 + round(9 * wave),
                    }  # fmt: skip
                    rows.append(Sample(kind="gpu", name=f"{node} GPU-{node}-{index}", at=at, numbers=numbers))
            for number, lane in enumerate(lanes):
                waiting = max(0, round(lane.lag + 9 * math.sin((back + 11 * number) / (6 + number % 5)) + 3 * wave))
                numbers = {"waiting": waiting, "running": lane.pending, "added": 4_000 - 60 * back,
                           "removed": 3_990 - 60 * back}  # fmt: skip
                rows.append(Sample(kind="lane", name=f"{lane.shard} {lane.stream}", at=at, numbers=numbers))
            ended = max(0, round(110 + 40 * wave))
            of_tasks: dict[str, float] = {
                "completed": ended, "failed": int(back in {4, 17, 18}), "retry_timeout": int(back % 7 == 0),
                "retry_gpu_oom": int(back % 11 == 0), "wait_p50": 3 + wave, "wait_p95": 14 + 6 * wave,
                "wait_p99": 30 + 9 * wave, "run_p50": 41 + 3 * wave, "run_p95": 93 + 5 * wave,
                "run_p99": 130 + 9 * wave, "age_10": 9, "age_60": 21, "age_600": 14, "age_3600": 0, "age_more": 0,
                "age_unread": 0,
            }  # fmt: skip
            rows.append(Sample(kind="tasks", name="all", at=at, numbers=of_tasks))
            running = max(0, min(24, round(17 + 6 * wave)))
            rows.append(Sample(kind="workers", name="all", at=at, numbers={"capacity": 24, "running": running}))
            numbers = {"made": int(back in {4, 17, 18, 40}), "open": max(1, 4 - back // 15)}
            rows.append(Sample(kind="dead_letters", name="all", at=at, numbers=numbers))
        Sample.objects.bulk_create(rows, ignore_conflicts=True)
