"""The consumer of an engine: one session per queue, serial calls; one round trip settles and claims."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from dalston_queue.broker.connection.breaker import Backoff
from dalston_queue.broker.engine.delivery import Delivery, EntryKey, Settlement
from dalston_queue.broker.engine.session import Answer, Limits, Session
from dalston_queue.broker.engine.stale import DEFAULT_RULES, StaleClaim, StaleRules
from dalston_queue.broker.engine.waker import Claim, Waker, push_tokens, unused
from dalston_queue.broker.errors import Fenced, Invalid, Unavailable, WrongKeyType
from dalston_queue.broker.protocol.keys import check_name
from dalston_queue.broker.protocol.messages import ErrorInfo, Malformed, Outcome, encode_error, encode_outcome
from dalston_queue.broker.protocol.types import Cause, Settled, Tier

if TYPE_CHECKING:
    from dalston_queue.broker.broker import Broker

log = logging.getLogger(__name__)
MAX_CAPACITY = 256
MAX_SLEEP_S = 0.8
"""Then the lanes are read again: an engine follows a new lane within a second of its first task. The server checks ten
times a second for blocked clients that have waited long enough."""


class Exchanged(msgspec.Struct):
    """The answer to one exchange."""

    claimed: list[Delivery]
    settled: list[Settled]  # one per settlement, in their order
    dead_lettered: list[Malformed]  # unreadable entries that the claim met; already in the event stream, for the log


class Renewed(msgspec.Struct):
    """What changed since the last renewal."""

    cancelled: list[Delivery]  # still ours: stop them and settle Cancelled()
    lost: list[Delivery]  # reclaimed: stop them, don't settle
    missing: list[Delivery]  # ours, but not held (a reply got lost): run them


class Consumer:
    """Open it, then loop: exchange(...), and wait(...) when nothing came. Calls may raise Unavailable (wait() backs
    off; then repeat the call, with the same settlements) or Fenced (stop what was held, call open() again). Safe to
    share between threads: calls are serialised by a lock, except wait(), which has its own connection."""

    def __init__(
        self,
        broker: Broker,
        engine_id: str,
        queues: Sequence[str],
        capabilities: Iterable[str] = (),
        capacity: int = 1,
        *,
        max_suspects: int = 2,
        max_backlog: int = 50_000,
        stale: StaleRules = DEFAULT_RULES,
    ) -> None:
        """max_suspects: how many suspects of one queue may run at once, on all engines of a shard together.
        max_backlog: waiting events above which this engine claims nothing. stale: when reclaim() reclaims, and with
        which budgets."""
        if not engine_id or not engine_id.isprintable() or " " in engine_id:
            raise Invalid(f"engine id {engine_id!r} must be printable and without spaces")
        if not queues or not 0 < capacity <= MAX_CAPACITY:
            raise Invalid(f"engine {engine_id} needs at least one queue and a capacity of 1 to {MAX_CAPACITY}")
        limits = Limits(max_backlog=max_backlog, max_suspects=max_suspects)
        able = frozenset(check_name("capability", name) for name in capabilities)
        self.engine_id = engine_id
        self.capacity = capacity
        by_queue = [
            [Session(shard, check_name("queue", queue), engine_id, able, limits) for shard in broker.shards_of(queue)]
            for queue in queues
        ]
        self._by_queue = deque(by_queue)
        self._sessions = [session for sessions in by_queue for session in sessions]
        self._held: dict[EntryKey, Delivery] = {}
        self._suspect: EntryKey | None = None  # the last suspect claimed
        # what one queue answered in a call that then failed at another queue: returned by the next call
        self._new: list[Delivery] = []
        self._lost: list[Delivery] = []
        self._answered: dict[Delivery, Settled] = {}
        self._lock = threading.RLock()
        self._waker = Waker()
        self._backoff = Backoff()
        self._stale = StaleClaim(broker, engine_id, queues, stale)

    def limit_to(self, capabilities: Iterable[str]) -> None:
        """The capabilities from now on. Before `open`: an engine may know them only when its model is loaded."""
        able = frozenset(check_name("capability", name) for name in capabilities)
        for session in self._sessions:
            session.capabilities = able

    @property
    def held(self) -> list[Delivery]:
        """The deliveries that were claimed and are neither settled, released nor lost."""
        with self._lock:
            return list(self._held.values())

    def open(self) -> None:
        """Open the sessions. This fences the previous session of the same engine id."""
        with self._lock:
            self._drop_all()
            self._waker.closed = False
            for session in self._sessions:
                session.open()

    def exchange(self, settlements: Sequence[tuple[Delivery, Outcome]] = (), free: int | None = None) -> Exchanged:
        """Settle these and claim up to `free` (at most, and by default, the capacity that is left), in one round trip
        per queue."""
        with self._lock:
            tokens = self._waker.take_tokens()
            claims: list[Claim] | None = [] if tokens else None  # needed for tokens only
            try:
                result = self._exchange(settlements, free, claims)
            except Fenced:
                self._waker.keep(tokens)
                self._drop_all()
                raise
            except BaseException:
                self._waker.keep(tokens)
                raise
            if claims:
                push_tokens(unused(tokens, claims))
            return result

    def _exchange(
        self, settlements: Sequence[tuple[Delivery, Outcome]], free: int | None, claims: list[Claim] | None
    ) -> Exchanged:
        held, answered, sessions = self._held, self._answered, self._sessions
        dead_lettered: list[Malformed] = []
        ending: set[EntryKey] = set()
        prepared: dict[Session, list[Settlement]] = {}
        for delivery, outcome in settlements:
            key = delivery.key
            if key not in ending and delivery not in answered:  # the first of two results for one task counts
                kind, body = encode_outcome(outcome)
                prepared.setdefault(delivery.session, []).append((delivery, kind, body))
            ending.add(key)
        keeping = len(held.keys() - ending)
        room = self.capacity - keeping
        room = room if free is None else min(free, room)
        known, failed = len(self._new), None
        for session in sessions if len(sessions) == 1 else self._in_turn():
            if self._suspect and self._suspect in held and self._suspect not in ending:
                room = 0  # a suspect runs alone
            new = len(self._new) - known
            try:
                answer = session.exchange(prepared.get(session, ()), room - new, not keeping and not new)
            except WrongKeyType as error:
                if session in prepared:
                    failed = error  # after the other queues: their answers are kept for the next call
                else:
                    self._skip(session, error)
                answer = Answer()
            if claims is not None:
                claims.append(Claim(session, room - new, answer.claimed))
            answered.update(answer.settled)
            self._hold(session, answer.claimed, dead_lettered)
            for stream, entry_id in answer.unreadable:
                self._dead_letter(session, stream, entry_id, "", dead_lettered)
        if failed is not None:
            raise failed
        result = Exchanged(self._new, self._end(settlements), dead_lettered)
        self._new, self._answered = [], {}
        self._backoff.reset()
        return result

    def _end(self, settlements: Sequence[tuple[Delivery, Outcome]]) -> list[Settled]:
        """The answer to each settlement: LOST for the second of two results for one task."""
        codes: list[Settled] = []
        seen: set[EntryKey] = set()
        for delivery, _ in settlements:
            key = delivery.key
            if key in seen:
                codes.append(Settled.LOST)
                continue
            seen.add(key)
            code = self._answered[delivery]
            codes.append(code)
            delivery.lost = code is Settled.LOST
            self._held.pop(key, None)
        return codes

    def _dead_letter(
        self, session: Session, stream: str, entry_id: str, reason: str, dead_lettered: list[Malformed]
    ) -> None:
        why = session.dead_letter(stream, entry_id, reason)
        if why:
            log.warning("%s dead-lettered entry %s of %s: %s", self.engine_id, entry_id, stream, why)
            dead_lettered.append(Malformed(reason=why, raw={}, queue=session.queue, stream=stream, entry_id=entry_id))

    def claim(self, count: int | None = None, timeout: float = 0.0) -> list[Delivery]:
        """Only claim, up to `count`. If nothing waits, sleep up to `timeout` seconds for the first task."""
        claimed = self.exchange((), count).claimed
        if not claimed and timeout > 0 and self.wait(timeout):
            claimed = self.exchange((), count).claimed
        return claimed

    def wait(self, timeout: float = 1.0) -> bool:
        """Sleep until a task may be waiting: True. Follows new lanes. Backs off on a lost connection instead of
        raising."""
        try:
            if self._waker.wait(self._sessions, min(timeout, MAX_SLEEP_S)):
                return True
            with self._lock:
                for session in self._sessions:
                    session.refresh_lanes()
            self._backoff.reset()
        except Unavailable as error:
            if not self._waker.closed:  # closing the consumer ends the wait of another thread
                self._back_off(error, timeout)
        return False

    def _back_off(self, error: Unavailable, max_s: float) -> None:
        pause = self._backoff.next()
        log.debug("%s waits %.1f s for Redis: %s", self.engine_id, pause, error)
        time.sleep(min(pause, max_s))

    def renew_all(self, progress: dict[str, Any] | None = None) -> Renewed:
        """Renew what is held and learn what changed. Call it about once a second while anything runs, and after any
        Unavailable. progress: by task id, reported with the renewal. Doesn't count as the engine's heartbeat: that is
        registry.beat_node by the supervisor, or registry.beat_engine by an engine that runs alone."""
        with self._lock:
            try:
                cancelled = self._renew(list(self._held.values()), progress or {}, find_missing=True)
            except Fenced:
                self._drop_all()
                raise
            result = Renewed(cancelled, self._lost, self._new)
            self._lost, self._new = [], []
            return result

    def renew(self, delivery: Delivery, progress: Any = None) -> bool:
        """The renewal of one delivery; Delivery.renew and Delivery.progress call it."""
        with self._lock:
            if delivery.key not in self._held:
                return False
            try:
                self._renew([delivery], {} if progress is None else {delivery.task_id: progress}, find_missing=False)
            except Fenced:
                self._drop_all()
                return False
            return not (delivery.cancel_requested or delivery.lost)

    def _renew(self, held: list[Delivery], progress: dict[str, Any], find_missing: bool) -> list[Delivery]:
        """Returns the deliveries whose cancel is requested; keeps what is lost and what was missing."""
        cancelled = []
        for session in self._sessions:
            mine = [delivery for delivery in held if delivery.session is session]
            if not mine and not find_missing:
                continue
            renewals = [(d.task_id, d.attempt, d.stream, d.entry_id, _json(progress.get(d.task_id))) for d in mine]
            try:
                codes, missing = session.renew(renewals, find_missing)
            except WrongKeyType as error:
                self._skip(session, error)
                continue
            for delivery, code in zip(mine, codes, strict=True):
                if code == b"lost":
                    delivery.lost = True
                    self._lost.append(delivery)
                    self._held.pop(delivery.key, None)
                elif code == b"cancel":
                    delivery.cancel_requested = True
                    cancelled.append(delivery)
            self._hold(session, missing, [])
        return cancelled

    def release(self, deliveries: Sequence[Delivery] | None = None) -> list[str]:
        """Release (default: everything held), uncounted, as the first of their queue. Returns the task ids released."""
        with self._lock:
            releasing = list(self._held.values()) if deliveries is None else list(deliveries)
            body = encode_error(ErrorInfo(message=f"released by {self.engine_id}", cause=Cause.DRAINED))
            released: list[str] = []
            for session in self._sessions:
                mine = [delivery for delivery in releasing if delivery.session is session]
                if not mine:
                    continue
                codes = session.release([(d.task_id, d.attempt, d.stream) for d in mine], body)
                for delivery, ok in zip(mine, codes, strict=True):
                    self._held.pop(delivery.key, None)
                    delivery.lost = True
                    if ok:
                        released.append(delivery.task_id)
            return released

    def reclaim(self) -> int:
        """Reclaim what dead owners hold in our queues, for the next claim. At start and
        when idle. Returns how many entries moved."""
        return self._stale.reclaim()

    def close(self) -> None:
        """Release what is held, end the sessions, leave the groups. Idempotent."""
        self._waker.close(for_good=True)
        push_tokens(self._waker.take_tokens())
        with self._lock:
            try:
                for _ in range(2 if any(not session.is_answered for session in self._sessions) else 0):
                    # a claim without an answer may still run: the first renewal comes after the end of its connection,
                    # so that the second one finds all that was claimed
                    self._renew(list(self._held.values()), {}, find_missing=True)
                self.release()
            except Fenced:
                self._drop_all()
            for session in self._sessions:
                session.close()

    def _in_turn(self) -> list[Session]:
        """The first queue rotates, so that none starves another; its shards are in order of priority. Sessions with an
        unanswered call come first: what that call claimed takes room."""
        self._by_queue.rotate(-1)
        in_turn = [session for sessions in self._by_queue for session in sessions]
        return sorted(in_turn, key=lambda session: session.is_answered)

    def _hold(self, session: Session, deliveries: Sequence[Delivery], dead_lettered: list[Malformed]) -> None:
        """Hold what was delivered; this call returns it, or the next one if this one fails."""
        for delivery in deliveries:
            if reason := delivery.read_message():
                self._dead_letter(session, delivery.stream, delivery.entry_id, reason, dead_lettered)
                continue
            key = delivery.key
            if key in self._held:
                continue  # a renewal delivered it before the lost call was repeated: it runs already
            if delivery.tier is Tier.SUSPECT:
                self._suspect = key
            delivery.consumer = self
            self._held[key] = delivery
            self._new.append(delivery)

    def _skip(self, session: Session, error: WrongKeyType) -> None:
        """A key of another type in one queue must not keep this engine from its other queues, if it has any."""
        if len(self._sessions) == 1:
            raise error
        log.warning("%s skips queue %s: %s", self.engine_id, session.queue, error)

    def _drop_all(self) -> None:
        for delivery in self._held.values():
            delivery.lost = True
        self._held.clear()
        self._new, self._lost, self._answered = [], [], {}


def _json(progress: Any) -> bytes:
    return b"" if progress is None else msgspec.json.encode(progress)
