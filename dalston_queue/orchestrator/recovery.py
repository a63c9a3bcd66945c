"""Recovery: the leading orchestrator judges engines, condemns the dead ones and reclaims their tasks.

It runs in a thread of its own. A poll needs only Redis; a new term and the record of a run need Postgres.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog
from django.conf import settings
from django.db import Error, connection
from django.utils import timezone

from dalston_queue import crash_points
from dalston_queue.broker import Broker
from dalston_queue.broker.errors import BrokerError, WrongKeyType
from dalston_queue.broker.nodes.registry import BeatCounters
from dalston_queue.broker.protocol.types import Cause
from dalston_queue.metrics.processes import HEARTBEAT_FAILURES
from dalston_queue.orchestrator.duties.report import Report, record_run
from dalston_queue.orchestrator.judge import Judge
from dalston_queue.orchestrator.leadership import Leadership

log = structlog.get_logger(__name__)
RECORD_INTERVAL_S = 15.0


def _judge() -> "Judge[str, object]":
    # A poll may be late by one interval; more than that is a gap.
    return Judge(settings.DALSTON_DEAD_AFTER_S, 2 * settings.DALSTON_RECOVERY_INTERVAL_S)


@dataclass(slots=True)
class Recovery:
    broker: Broker
    leadership: Leadership
    _engines: "Judge[str, object]" = field(default_factory=_judge)
    _nodes: "Judge[str, object]" = field(default_factory=_judge)
    _recorded_at: float = float("-inf")

    def run(self, wait: Callable[[float], bool]) -> None:
        """Run until `wait`, which sleeps for so many seconds, returns True."""
        while True:
            try:
                if self.leadership.keep():
                    self._poll_and_record()
                else:
                    self.forget_polls()
            except (BrokerError, Error) as error:
                log.warning("recovery waits for redis or postgres", error=str(error))
                connection.close_if_unusable_or_obsolete()
            if wait(self._interval_s()):
                break
        self._resign()

    def _poll_and_record(self) -> None:
        """Poll, and record the run for the dashboard every RECORD_INTERVAL_S. Only the record needs Postgres."""
        started, clock = timezone.now(), time.monotonic()
        report = Report()
        report.note("reclaimed", self.poll(clock))
        if report.repaired or clock - self._recorded_at > RECORD_INTERVAL_S:
            took_ms = int((time.monotonic() - clock) * 1000)
            holder = self.leadership.token
            record_run("recovery", started, took_ms, report, every_s=RECORD_INTERVAL_S, holder=holder)
            self._recorded_at = clock

    def poll(self, now: float) -> int:
        """One poll; returns how many tasks were reclaimed from dead engines."""
        beats = self.broker.registry.beat_counters()
        nodes = {node.node_id: node for node in self.broker.registry.nodes()}
        home = {engine.engine_id: engine.node_id for engine in self.broker.registry.engines()}
        for node_id in self._nodes.observe({name: node.beat for name, node in nodes.items()}, now):
            self.broker.registry.condemn_node(nodes[node_id])
            HEARTBEAT_FAILURES.labels("node").inc()
        counters: dict[str, object] = {name: each.counters for name, each in beats.items()}
        dead = self._engines.observe(counters, now)
        return sum(self._reclaim_or_log(beats[engine], self._cause(home.get(engine, ""))) for engine in dead)

    def forget_polls(self) -> None:
        """A standby doesn't poll, so it must not judge by earlier polls."""
        self._engines, self._nodes = _judge(), _judge()

    def _cause(self, node_id: str) -> Cause:
        """ENGINE_LOST if the engine's node still beats; without a node that beats it is not known which one died."""
        known = bool(node_id) and self._nodes.knows(node_id)
        idle = self._nodes.idle_s(node_id) >= settings.DALSTON_DEAD_AFTER_S / 2
        return Cause.ENGINE_LOST if known and not idle else Cause.NODE_LOST

    def _reclaim_or_log(self, beats: BeatCounters, cause: Cause) -> int:
        """A key of a wrong type in one queue must not keep the tasks of other engines from being reclaimed."""
        try:
            return self._reclaim(beats, cause)
        except WrongKeyType as error:
            log.error("work can't be reclaimed", engine_id=beats.engine_id, error=str(error))
            return 0

    def _reclaim(self, beats: BeatCounters, cause: Cause) -> int:
        self.broker.registry.condemn(beats, cause)
        HEARTBEAT_FAILURES.labels("engine").inc()
        crash_points.point("recovery.condemned")
        taken = self.broker.reclaim(
            beats.engine_id,
            beats.counters,
            cause,
            judged=beats.counters,
            max_deliveries=settings.DALSTON_MAX_DELIVERIES,
            max_losses=settings.DALSTON_MAX_DELIVERIES_NODE_LOST,
        )
        if taken.moved:
            log.warning("reclaimed work", engine_id=beats.engine_id, cause=cause, recovered=len(taken.recovered),
                        exhausted=len(taken.exhausted))  # fmt: skip
        return taken.moved

    def _interval_s(self) -> float:
        """Standbys read the lease often enough to take over within its TTL."""
        return min(settings.DALSTON_RECOVERY_INTERVAL_S, settings.DALSTON_LEADER_TTL_S / 6)

    def _resign(self) -> None:
        try:
            self.leadership.resign()
        except BrokerError as error:
            log.warning("redis does not answer; the lease expires by itself", error=str(error))
        connection.close()
