"""Recovery: the leading orchestrator judges engines, condemns the dead ones and reclaims their tasks.

The tasks of a lost node are reclaimed one by one, DALSTON_RECLAIM_STAGGER_MS apart: many engines that load the same
model, or call the same server, at the same moment could fail together.

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
from dalston_queue.broker.engine.remote import NODE
from dalston_queue.broker.errors import BrokerError, WrongKeyType
from dalston_queue.broker.nodes.registry import BeatCounters
from dalston_queue.broker.operations.reclaim import Reclaimed
from dalston_queue.broker.protocol.types import Cause
from dalston_queue.health import outages
from dalston_queue.metrics.processes import HEARTBEAT_FAILURES
from dalston_queue.orchestrator.deadlines import expire_tasks_of_workers
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
    _staggered: dict[str, list[BeatCounters]] = field(default_factory=dict)  # engines of lost nodes, by node
    _between_polls: int = 0  # tasks reclaimed since the last poll
    _polled_at: float = float("-inf")
    _recorded_at: float = float("-inf")

    def run(self, wait: Callable[[float], bool]) -> None:
        """Run until `wait`, which sleeps for so many seconds, returns True."""
        while True:
            try:
                if self._staggered and time.monotonic() < self._polled_at + self._interval_s():
                    self._between_polls += self.reclaim_next()
                elif self.leadership.keep():
                    self._polled_at = time.monotonic()
                    self._poll_and_record()
                else:
                    self.forget_polls()
            except (BrokerError, Error) as error:
                if not outages.report(error):
                    log.warning("recovery waits for redis or postgres", error=str(error))
                connection.close_if_unusable_or_obsolete()
            if wait(self._pause_s()):
                break
        self._resign()

    def _poll_and_record(self) -> None:
        """Poll, and record the run for the dashboard every RECORD_INTERVAL_S. Only the record needs Postgres."""
        started, clock = timezone.now(), time.monotonic()
        report = Report()
        report.note("reclaimed", self._between_polls + self.poll(clock))
        report.note("expired", self._expire_tasks_of_workers())
        self._between_polls = 0
        if report.repaired or clock - self._recorded_at > RECORD_INTERVAL_S:
            took_ms = int((time.monotonic() - clock) * 1000)
            holder = self.leadership.token
            record_run("recovery", started, took_ms, report, every_s=RECORD_INTERVAL_S, holder=holder)
            self._recorded_at = clock

    def poll(self, now: float) -> int:
        """One poll; returns how many tasks were reclaimed from dead engines: of each lost node the first one."""
        beats = self.broker.registry.beat_counters()
        nodes = {node.node_id: node for node in self.broker.registry.nodes()}
        home = {engine.engine_id: engine.node_id for engine in self.broker.registry.engines()}
        for node_id in self._nodes.observe({name: node.beat for name, node in nodes.items()}, now):
            self.broker.registry.condemn_node(nodes[node_id])
            HEARTBEAT_FAILURES.labels("node").inc()
        counters: dict[str, object] = {name: each.counters for name, each in beats.items()}
        dead = self._engines.observe(counters, now)
        # A node that beats again doesn't change the cause for the rest of its tasks.
        going_on = {each.engine_id for engines in self._staggered.values() for each in engines}
        reclaimed, self._staggered = 0, {}
        for engine in dead:
            node = home.get(engine, "")
            cause = Cause.NODE_LOST if engine in going_on else self._cause(node)
            self.broker.registry.condemn(beats[engine], cause)
            if engine not in going_on:
                HEARTBEAT_FAILURES.labels("engine").inc()
            crash_points.point("recovery.condemned")
            if cause is Cause.NODE_LOST:
                # A worker over HTTP is a node of its own, and so is an engine without a supervisor.
                self._staggered.setdefault(node if node in nodes else engine, []).append(beats[engine])
            else:
                reclaimed += self._reclaim_or_log(beats[engine], cause).moved
        return reclaimed + self.reclaim_next()

    def _expire_tasks_of_workers(self) -> int:
        workers = [each for each in self.broker.registry.engines() if each.node_id == NODE]
        return expire_tasks_of_workers(self.broker, workers)

    def reclaim_next(self) -> int:
        """Reclaim the next task of each lost node, or all with a stagger of 0; returns how many."""
        reclaimed, at_most = 0, 1 if settings.DALSTON_RECLAIM_STAGGER_MS else 0
        for node, engines in list(self._staggered.items()):
            while engines:
                taken = self._reclaim_or_log(engines[0], Cause.NODE_LOST, at_most)
                reclaimed += taken.moved
                if not taken.left:
                    del engines[0]
                if taken.moved and at_most:
                    break
            if not engines:
                del self._staggered[node]
        return reclaimed

    def forget_polls(self) -> None:
        """A standby doesn't poll, so it must not judge by earlier polls."""
        self._engines, self._nodes = _judge(), _judge()
        self._staggered = {}

    def _cause(self, node_id: str) -> Cause:
        """ENGINE_LOST if the engine's node still beats; without a node that beats it is not known which one died."""
        known = bool(node_id) and self._nodes.knows(node_id)
        idle = self._nodes.idle_s(node_id) >= settings.DALSTON_DEAD_AFTER_S / 2
        return Cause.ENGINE_LOST if known and not idle else Cause.NODE_LOST

    def _reclaim_or_log(self, beats: BeatCounters, cause: Cause, at_most: int = 0) -> Reclaimed:
        """A key of a wrong type in one queue must not keep the tasks of other engines from being reclaimed."""
        try:
            return self._reclaim(beats, cause, at_most)
        except WrongKeyType as error:
            if at_most:  # such a queue raises each time: what its other queues hold must not wait for it
                return self._reclaim_or_log(beats, cause)
            log.error("work can't be reclaimed", engine_id=beats.engine_id, error=str(error))
            return Reclaimed()

    def _reclaim(self, beats: BeatCounters, cause: Cause, at_most: int) -> Reclaimed:
        taken = self.broker.reclaim(
            beats.engine_id,
            beats.counters,
            cause,
            judged=beats.counters,
            max_deliveries=settings.DALSTON_MAX_DELIVERIES,
            max_losses=settings.DALSTON_MAX_DELIVERIES_NODE_LOST,
            at_most=at_most,
        )
        if taken.moved:
            log.warning("reclaimed work", engine_id=beats.engine_id, cause=cause, recovered=len(taken.recovered),
                        exhausted=len(taken.exhausted))  # fmt: skip
        return taken

    def _pause_s(self) -> float:
        return settings.DALSTON_RECLAIM_STAGGER_MS / 1000 if self._staggered else self._interval_s()

    def _interval_s(self) -> float:
        """Standbys read the lease often enough to take over within its TTL."""
        return min(settings.DALSTON_RECOVERY_INTERVAL_S, settings.DALSTON_LEADER_TTL_S / 6)

    def _resign(self) -> None:
        try:
            self.leadership.resign()
        except BrokerError as error:
            log.warning("redis does not answer; the lease expires by itself", error=str(error))
        connection.close()
