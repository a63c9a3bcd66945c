"""The orchestrator's loop: read events, apply, commit, follow up, acknowledge; poll Postgres once a second.

Events drive it; polling is the safety net. It finds work whose hint was lost, or whose process died between two steps,
within a second. Each poll takes what no other process has locked, so any number of orchestrators may poll at once.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from uuid import UUID

import structlog
from django.conf import settings
from django.db import Error, connection, transaction
from django.utils import timezone

from dalston_queue import crash_points
from dalston_queue.broker import EventReader
from dalston_queue.broker.errors import BrokerError
from dalston_queue.broker.protocol.messages import Event, Malformed
from dalston_queue.database import drop_broken_connection, is_transient
from dalston_queue.health import outages
from dalston_queue.health.loops import Loop
from dalston_queue.jobs.lifecycle.advance import Advanced, claim_jobs
from dalston_queue.jobs.lifecycle.stop import stop_tasks, stopping_jobs
from dalston_queue.jobs.operator import pause
from dalston_queue.jobs.operator.replay_batches import run_due_batches
from dalston_queue.jobs.order import depth
from dalston_queue.jobs.order.refill import BATCH, NO_BOUND, refill
from dalston_queue.orchestrator.batch import handle
from dalston_queue.orchestrator.chunks import Item, Turn, first_of
from dalston_queue.orchestrator.data_loss import restore_if_lost
from dalston_queue.orchestrator.inbox import LIGHT, Inbox
from dalston_queue.orchestrator.scheduler import make_due_ready, next_poll_in_s, submit_due

log = structlog.get_logger(__name__)
# A batch takes well under a second; one that waits for Postgres longer may be handled twice, which changes nothing.
TAKE_OVER_AFTER_MS = 5_000
RETRY_DELAY_S = 0.5
WARN_INTERVAL_S = 10.0
KEEP_WINDOWS_S = 0.5
SHARED_REFILL = 16
"""Tasks that a refill queues in each window while projects share the orchestrator, or as many as there were events."""

# Each second: jobs that no orchestrator has claimed, with their stages: the first of each project, then the second of
# each. From project to project it skips along the index.
PENDING = """
    WITH RECURSIVE projects AS (
        (SELECT project_id FROM dalston_job WHERE status = 'pending' ORDER BY project_id LIMIT 1)
        UNION ALL
        SELECT (
            SELECT project_id FROM dalston_job WHERE status = 'pending' AND project_id > projects.project_id
            ORDER BY project_id LIMIT 1
        ) FROM projects WHERE project_id IS NOT NULL
    ), first AS MATERIALIZED (
        SELECT j.id FROM projects CROSS JOIN LATERAL (
            SELECT id, row_number() OVER (ORDER BY id) AS nth FROM (
                SELECT id FROM dalston_job WHERE status = 'pending' AND project_id = projects.project_id
                ORDER BY id LIMIT %(count)s
            ) AS its
        ) AS j WHERE projects.project_id IS NOT NULL ORDER BY j.nth, j.id LIMIT %(count)s
    )
    SELECT id, (SELECT count(*) FROM dalston_task t WHERE t.job_id = first.id AND t.status = 'pending') FROM first"""


@dataclass(slots=True)
class Orchestrator:
    reader: EventReader
    stopping: Callable[[], bool]
    ready: Callable[[], None]
    loop: Loop = field(default_factory=lambda: Loop("main loop"))
    batch: int = 400  # an engine that starts and ends tasks of milliseconds writes hundreds of events a second
    _inbox: Inbox = field(init=False)
    _announced: bool = False
    _next_poll: float = 0.0
    _next_backlog: float = 0.0
    _started: Counter[tuple[str, str]] = field(default_factory=Counter)  # of the last large batch
    _started_until: float = 0.0
    _backlog: bool = False  # the last poll left work
    _flags_known: bool = False  # Redis has answered ever since the pause flags were restored
    _warned: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._inbox = Inbox(self.batch)

    def run(self) -> None:
        """Run until `stopping()`. Events that have been read are applied first."""
        while self._inbox or not self.stopping():
            self.loop.mark()
            try:
                if not self.stopping():
                    self._find_work()
                self._let_others_pass()
                if self._inbox:
                    self._handle(self._inbox.turn())
                if self._backlog and not self.stopping():
                    self._work_off_backlog()
            except BrokerError as error:
                self._flags_known = False  # during the outage an operator may have paused or resumed a queue
                self._warn("redis refuses; will try again", error)
                self._sleep()
            except Error as error:
                if not is_transient(error):
                    raise
                self._warn("postgres refuses; will try again", error)
                drop_broken_connection()
                self._sleep()
        self._close()

    def _find_work(self) -> None:
        """Poll if it is time, and read events; wait for some if there is nothing to do."""
        if time.monotonic() >= self._next_poll:
            self._poll()
            if not self._announced:  # Postgres and Redis have both answered
                self.ready()
                self._announced = True
        is_busy = self._inbox or self._backlog
        self._read(0 if is_busy else max(0, int((self._next_poll - time.monotonic()) * 1000)))

    def _poll(self) -> None:
        self._next_poll = time.monotonic() + settings.DALSTON_SCHEDULER_INTERVAL_S
        if not self._flags_known:
            pause.restore()
            self._flags_known = True
        restore_if_lost()
        self._backlog = poll()
        self._next_poll = min(self._next_poll, time.monotonic() + next_poll_in_s(timezone.now()))
        self._inbox.add(self.reader.take_over(idle_ms=TAKE_OVER_AFTER_MS, count=self.batch))

    def _read(self, block_ms: int) -> None:
        if not self._inbox.is_full:
            self._inbox.add(self.reader.read(count=self.batch, block_ms=block_ms))

    def _work_off_backlog(self) -> None:
        """One batch of a backlog, at once while no event waits; else it has a third of the time."""
        if self._inbox and time.monotonic() < self._next_backlog:
            return
        self._read_for_others()
        begun = time.monotonic()
        self._backlog = work_off_backlog(at_most=SHARED_REFILL if self._inbox.is_shared else NO_BOUND)
        self._next_backlog = time.monotonic() + 2 * (time.monotonic() - begun)

    def _read_for_others(self) -> None:
        """Between two steps of a project that has many events: what other projects have sent meanwhile."""
        if self._inbox.is_shared:
            self._read(0)
            self._let_others_pass()

    def _let_others_pass(self) -> None:
        """Projects with few events go before one that has many."""
        if self._inbox.is_shared and (part := self._inbox.light_turn()):
            advanced = self._apply(part)
            self._follow_up(advanced, part)

    def _handle(self, turn: Turn) -> None:
        """Apply the events of a turn. Hints of jobs beyond it are acknowledged, and the jobs left to the poll, which
        takes them from each project in turn."""
        if turn.left:
            self.reader.ack(turn.left)
            self._backlog = True
        advanced = self._apply(turn.part)
        self._read_for_others()
        self._follow_up(advanced, turn.part)

    def _apply(self, part: list[Item]) -> Advanced:
        crash_points.point("events.read", _kinds(part))
        advanced = self._committed(part)
        crash_points.point("events.committed", _kinds(part))
        return advanced

    def _follow_up(self, advanced: Advanced, part: list[Item]) -> None:
        """Before the events are acknowledged: an engine may wait for it. Events that are read again change nothing."""
        at_most, eager = NO_BOUND, 0
        if self._inbox.is_shared:
            at_most, eager = max(SHARED_REFILL, len(part)), len(advanced.ready)
            self._keep_windows(advanced)
        follow_up(advanced, at_most, eager if eager <= LIGHT else 0)
        self.reader.ack(part)
        crash_points.point("events.acknowledged", _kinds(part))

    def _keep_windows(self, advanced: Advanced) -> None:
        """After a few events windows are as large as the many before have made them: else they would be full."""
        if advanced.started.total() >= SHARED_REFILL or time.monotonic() > self._started_until:
            self._started, self._started_until = advanced.started, time.monotonic() + KEEP_WINDOWS_S
        else:
            advanced.started |= self._started

    def _committed(self, batch: list[Event | Malformed]) -> Advanced:
        """Apply the batch, however long Postgres is away. Another orchestrator may take the events over meanwhile:
        applying an event twice changes nothing."""
        while True:
            self.loop.mark()
            try:
                return handle(batch, timezone.now())
            except Error as error:
                if not is_transient(error) or self.stopping():
                    raise
                self._warn("postgres refuses; the batch waits", error)
                drop_broken_connection()
                self._sleep()

    def _close(self) -> None:
        try:
            self.reader.close()
        except BrokerError as error:
            log.warning("redis does not answer; other orchestrators take over the events left", error=str(error))
        connection.close()

    def _warn(self, what: str, error: Exception) -> None:
        """An outage is a line when it begins. Anything else once, and then every ten seconds."""
        now = time.monotonic()
        if not outages.report(error) and now - self._warned.get(what, float("-inf")) >= WARN_INTERVAL_S:
            self._warned[what] = now
            log.warning(what, error=str(error))

    def _sleep(self) -> None:
        if not self.stopping():
            time.sleep(RETRY_DELAY_S)


def _kinds(batch: list[Event | Malformed]) -> Iterator[str]:
    return (event.kind for event in batch if isinstance(event, Event))


def follow_up(advanced: Advanced, at_most: int = NO_BOUND, eager: int = 0) -> None:
    """Refill windows, by so many tasks each, and stop tasks after a commit, each in transactions of its own."""
    now = timezone.now()
    if advanced.lanes:
        refill(advanced.lanes, now, advanced.started, advanced.only_ready, at_most, eager=eager)
    if advanced.stopping:
        stop_tasks(advanced.stopping, now)


def poll() -> bool:
    """One batch of each kind of work, so that a large backlog doesn't keep events waiting. True: there is more."""
    submit_due(timezone.now())
    more = work_off_backlog()
    make_due_ready(timezone.now())
    if jobs := stopping_jobs():
        stop_tasks(jobs, timezone.now(), skip_locked=True)
    refill(None, timezone.now())
    depth.compact()
    return more


def work_off_backlog(at_most: int = NO_BOUND) -> bool:
    """A batch of pending jobs, and one of replays. True: there is more."""
    more = _claim_pending(at_most)
    return run_due_batches(timezone.now()) or more


def _claim_pending(at_most: int) -> bool:
    """Claim a batch of jobs, of about MAX_STAGES stages; True if there are more."""
    with connection.cursor() as cursor:
        cursor.execute(PENDING, {"count": BATCH})
        found: list[tuple[UUID, int]] = cursor.fetchall()
    if not found:
        return False
    chosen = first_of(found)
    with transaction.atomic():
        claimed = claim_jobs(chosen, timezone.now(), skip_locked=True)
    refill(claimed.lanes, timezone.now(), at_most=at_most)
    # If none of a full batch could be claimed, other orchestrators have locked these jobs.
    return (len(found) == BATCH or len(chosen) < len(found)) and bool(claimed.ready)
