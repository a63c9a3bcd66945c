"""Recovery: the leading orchestrator judges engines, condemns the dead ones and reclaims their work.

In a thread of its own, so that a slow Postgres delays no recovery: it needs only Redis.
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
from dalston_queue.broker.nodes.registry import Pulse
from dalston_queue.broker.protocol.types import Cause
from dalston_queue.orchestrator.duties.report import Report, record_run
from dalston_queue.orchestrator.judge import Judge
from dalston_queue.orchestrator.leadership import Leadership

log = structlog.get_logger(__name__)
RECORD_INTERVAL_S = 15.0


def _judge() -> "Judge[str, object]":
    # Two polls may be late by one interval; more than that is a hole.
    return Judge(settings.DALSTON_DEAD_AFTER_S, 2 * settings.DALSTON_RECOVERY_INTERVAL_S)


@dataclass(slots=True)
class Recovery:
    broker: Broker
    leadership: Leadership
    _engines: "Judge[str, object]" = field(default_factory=_judge)
    _nodes: "Judge[str, object]" = field(default_factory=_judge)
    _recorded_at: float = float("-inf")

    def run(self, wait: Callable[[float], bool]) -> None:
        """Until `wait`, which sleeps for so many seconds, says that it is time to stop."""
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
        """Poll, and leave a record for the dashboard now and then. The record needs Postgres, the poll does not."""
        started, clock = timezone.now(), time.monotonic()
        report = Report()
        report.note("reclaimed", self.poll(clock))
        if report.repaired or clock - self._recorded_at > RECORD_INTERVAL_S:
            took_ms = int((time.monotonic() - clock) * 1000)
            holder = self.leadership.token
            record_run("recovery", started, took_ms, report, every_s=RECORD_INTERVAL_S, holder=holder)
            self._recorded_at = clock

    def poll(self, now: float) -> int:
        """One poll; returns how many tasks were reclaimed from the dead."""
        pulses = self.broker.registry.pulses()
        nodes = {node.node_id: node for node in self.broker.registry.nodes()}
        home = {engine.engine_id: engine.node_id for engine in self.broker.registry.engines()}
        for node_id in self._nodes.observe({name: node.beat for name, node in nodes.items()}, now):
            self.broker.registry.condemn_node(nodes[node_id])
        counters: dict[str, object] = {name: pulse.counters for name, pulse in pulses.items()}
        dead = self._engines.observe(counters, now)
        return sum(self._reclaim_or_log(pulses[engine], self._cause(home.get(engine, ""))) for engine in dead)

    def forget_polls(self) -> None:
        """A standby doesn't poll, so it must not judge by what it saw before."""
        self._engines, self._nodes = _judge(), _judge()

    def _cause(self, node_id: str) -> Cause:
        """An engine that falls silent while its node beats has died; with a silent node, or none, it is not known."""
        known = bool(node_id) and self._nodes.knows(node_id)
        silent = self._nodes.silent_for(node_id) >= settings.DALSTON_DEAD_AFTER_S / 2
        return Cause.ENGINE_LOST if known and not silent else Cause.NODE_LOST

    def _reclaim_or_log(self, pulse: Pulse, cause: Cause) -> int:
        """Keys of a wrong type in one queue must not keep the work of others from being reclaimed."""
        try:
            return self._reclaim(pulse, cause)
        except WrongKeyType as error:
            log.error("work can't be reclaimed", engine=pulse.engine_id, error=str(error))
            return 0

    def _reclaim(self, pulse: Pulse, cause: Cause) -> int:
        self.broker.registry.condemn(pulse, cause)
        crash_points.point("recovery.condemned")
        taken = self.broker.reclaim(
            pulse.engine_id,
            pulse.counters,
            cause,
            judged=pulse.counters,
            max_deliveries=settings.DALSTON_MAX_DELIVERIES,
            max_losses=settings.DALSTON_MAX_DELIVERIES_NODE_LOST,
        )
        if taken.moved:
            log.warning("reclaimed work", engine=pulse.engine_id, cause=cause, recovered=len(taken.recovered),
                        exhausted=len(taken.exhausted))  # fmt: skip
        return taken.moved

    def _interval_s(self) -> float:
        """Standbys read the lease often enough to take over within its TTL."""
        return min(settings.DALSTON_RECOVERY_INTERVAL_S, settings.DALSTON_LEADER_TTL_S / 6)

    def _resign(self) -> None:
        try:
            self.leadership.resign()
        except BrokerError as error:
            log.warning("the lease runs out by itself: redis does not answer", error=str(error))
        connection.close()
