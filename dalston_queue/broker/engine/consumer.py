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
from dalston_queue.broker.engine.delivery import Delivery, Place
from dalston_queue.broker.engine.given import Given, Settlement
from dalston_queue.broker.engine.session import Answer, Limits, Session
from dalston_queue.broker.engine.stale import DEFAULT_RULES, StaleClaim, StaleRules
from dalston_queue.broker.engine.waker import Looked, Waker, give_back, unused
from dalston_queue.broker.errors import Fenced, Invalid, Unavailable, WrongKeyType
from dalston_queue.broker.protocol.keys import check_name
from dalston_queue.broker.protocol.messages import ErrorInfo, Malformed, Outcome, encode_error, encode_outcome
from dalston_queue.broker.protocol.types import Cause, Settled, Tier

if TYPE_CHECKING:
    from dalston_queue.broker.broker import Broker

log = logging.getLogger(__name__)
MAX_CAPACITY = 256
LONGEST_SLEEP_S = 0.8
"""After it the lanes are looked up: a new one is followed within a second of its first task. The server looks ten times
a second for who has slept long enough."""
_SUSPECT, _LOST = Tier.SUSPECT, Settled.LOST  # looking a member of an enum up is slow


class Exchanged(msgspec.Struct):
    """What one exchange brought."""

    claimed: list[Delivery]
    settled: list[Settled]  # in the order of the settlements given
    dead_lettered: list[Malformed]  # unreadable entries met on the way; already in the event stream, for the log


class Beat(msgspec.Struct):
    """What changed since the last beat."""

    cancelled: list[Delivery]  # still ours: stop them and settle Cancelled()
    lost: list[Delivery]  # reclaimed: stop them, don't settle
    given_again: list[Delivery]  # ours, but not held (a reply got lost): run them


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
        max_backlog: events waiting above which this engine claims nothing. stale: when recover() reclaims, and with
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
        self._held: dict[Place | None, Delivery] = {}
        self._suspect: Place | None = None  # the place of the last suspect claimed
        # what one queue answered in a call that then failed at another queue: returned by the next call
        self._fresh: list[Delivery] = []
        self._gone: list[Delivery] = []
        self._answered: dict[Given, Settled] = {}
        self._lock = threading.RLock()
        self._waker = Waker()
        self._backoff = Backoff()
        self._stale = StaleClaim(broker, engine_id, queues, stale)

    @property
    def held(self) -> list[Delivery]:
        """What was claimed and is neither settled, released nor lost."""
        with self._lock:
            return list(self._held.values())

    def open(self) -> None:
        """Open the sessions. A repeated open fences the previous session of the same engine id."""
        with self._lock:
            self._drop_all()
            for session in self._sessions:
                session.open()

    def exchange(self, settlements: Sequence[tuple[Delivery, Outcome]] = (), free: int | None = None) -> Exchanged:
        """Settle these and claim up to `free` (at most, and by default, the capacity that is left), in one round trip
        per queue."""
        with self._lock:
            tokens = self._waker.take_tokens()
            looks: list[Looked] | None = [] if tokens else None  # only a token must be accounted for
            try:
                result = self._exchange(settlements, free, looks)
            except Fenced:
                self._waker.keep(tokens)
                self._drop_all()
                raise
            except BaseException:
                self._waker.keep(tokens)
                raise
            if looks:
                give_back(unused(tokens, looks))
            return result

    def _exchange(
        self, settlements: Sequence[tuple[Delivery, Outcome]], free: int | None, looks: list[Looked] | None
    ) -> Exchanged:
        held, answered, sessions = self._held, self._answered, self._sessions
        dead_lettered: list[Malformed] = []
        leaving: set[Place] = set()
        prepared: dict[Session, list[Settlement]] = {}
        for claimed, outcome in settlements:
            if claimed.place in leaving:
                continue  # see _ended
            leaving.add(claimed.place)
            if claimed.given not in answered:
                kind, body = encode_outcome(outcome)
                prepared.setdefault(claimed.session, []).append((claimed.given, kind, body))
        keeping = len(held.keys() - leaving)
        left = self.capacity - keeping
        room = left if free is None else min(free, left)
        told = len(self._fresh)
        for session in sessions if len(sessions) == 1 else self._in_turn():
            if self._suspect and self._suspect in held and self._suspect not in leaving:
                room = 0  # a suspect runs alone
            new = len(self._fresh) - told
            try:
                answer = session.exchange(prepared.get(session, ()), room - new, not keeping and not new)
            except WrongKeyType as error:
                if session in prepared:
                    raise
                self._go_on_without(session, error)
                answer = Answer()
            if looks is not None:
                looks.append(Looked(session, room - new, answer.given))
            answered.update(answer.settled)
            self._receive(session, answer, dead_lettered)
        result = Exchanged(self._fresh, self._ended(settlements), dead_lettered)
        self._fresh, self._answered = [], {}
        self._backoff.reset()
        return result

    def _ended(self, settlements: Sequence[tuple[Delivery, Outcome]]) -> list[Settled]:
        """The answer to each. Of two results for one task the first counts."""
        codes: list[Settled] = []
        told: set[Place] = set()
        for claimed, _ in settlements:
            if claimed.place in told:
                codes.append(_LOST)
                continue
            told.add(claimed.place)
            code = self._answered[claimed.given]
            codes.append(code)
            claimed.lost = code is _LOST
            self._held.pop(claimed.place, None)
        return codes

    def _dead_letter(
        self, session: Session, stream: str, entry_id: str, reason: str, dead_lettered: list[Malformed]
    ) -> None:
        why = session.dead_letter(stream, entry_id, reason)
        if why:
            log.warning("%s dead_lettered entry %s of %s: %s", self.engine_id, entry_id, stream, why)
            dead_lettered.append(Malformed(reason=why, raw={}, queue=session.queue, stream=stream, entry_id=entry_id))

    def claim(self, count: int | None = None, timeout: float = 0.0) -> list[Delivery]:
        """Only claim, up to `count`. If nothing is there, wait for it up to `timeout` seconds."""
        claimed = self.exchange((), count).claimed
        if not claimed and timeout > 0 and self.wait(timeout):
            claimed = self.exchange((), count).claimed
        return claimed

    def wait(self, timeout: float = 1.0) -> bool:
        """Sleep until something may be there: True. Follows new lanes. Never raises on a lost connection: it backs
        off."""
        try:
            if self._waker.wait(self._sessions, min(timeout, LONGEST_SLEEP_S)):
                return True
            with self._lock:
                for session in self._sessions:
                    session.refresh_lanes()
            self._backoff.reset()
        except Unavailable as error:
            self._back_off(error, timeout)
        return False

    def _back_off(self, error: Unavailable, most: float) -> None:
        pause = self._backoff.next()
        log.warning("%s waits %.1f s for Redis: %s", self.engine_id, pause, error)
        time.sleep(min(pause, most))

    def beat(self, progress: dict[str, Any] | None = None) -> Beat:
        """Say what is held (renewing it) and learn what changed. Call it about once a second while anything runs,
        and after any Unavailable. progress: by task id, reported on the way. Doesn't count as the engine's
        heartbeat: that is registry.beat_node by the supervisor, or registry.beat_engine by an engine that runs
        alone."""
        with self._lock:
            try:
                cancelled = self._beat(list(self._held.values()), progress or {}, look=True)
            except Fenced:
                self._drop_all()
                raise
            result = Beat(cancelled, self._gone, self._fresh)
            self._gone, self._fresh = [], []
            return result

    def renew(self, claimed: Delivery, progress: Any = None) -> bool:
        """One task's share of a beat; Delivery.renew and Delivery.progress call it."""
        with self._lock:
            if claimed.place not in self._held:
                return False
            try:
                self._beat([claimed], {} if progress is None else {claimed.task_id: progress}, look=False)
            except Fenced:
                self._drop_all()
                return False
            return not (claimed.cancel_requested or claimed.lost)

    def _beat(self, held: list[Delivery], progress: dict[str, Any], look: bool) -> list[Delivery]:
        """Returns those whose cancel is requested; notes what is lost and what is given again."""
        cancelled = []
        for session in self._sessions:
            mine = [claimed for claimed in held if claimed.session is session]
            if not mine and not look:
                continue
            said = [(c.task_id, c.attempt, c.stream, c.entry_id, _json(progress.get(c.task_id))) for c in mine]
            try:
                codes, again = session.beat(said, look)
            except WrongKeyType as error:
                self._go_on_without(session, error)
                continue
            for claimed, code in zip(mine, codes, strict=True):
                if code == b"lost":
                    claimed.lost = True
                    self._gone.append(claimed)
                    self._held.pop(claimed.place, None)
                elif code == b"cancel":
                    claimed.cancel_requested = True
                    cancelled.append(claimed)
            self._take(session, again, [])
        return cancelled

    def release(self, claimed: Sequence[Delivery] | None = None) -> list[str]:
        """Release (default: everything held), uncounted, as the first in their queue. Returns the task ids released."""
        with self._lock:
            giving = list(self._held.values()) if claimed is None else list(claimed)
            body = encode_error(ErrorInfo(message=f"{self.engine_id} gave it back", cause=Cause.DRAINED))
            given: list[str] = []
            for session in self._sessions:
                mine = [c for c in giving if c.session is session]
                if not mine:
                    continue
                for c, ok in zip(
                    mine, session.release([(c.task_id, c.attempt, c.stream) for c in mine], body), strict=True
                ):
                    self._held.pop(c.place, None)
                    c.lost = True
                    if ok:
                        given.append(c.task_id)
            return given

    def recover(self) -> int:
        """The engine's own stale claim: reclaim what owners judged dead hold in our queues, so that the next claim
        gets it. At start and when idle. Returns how many entries moved."""
        return self._stale.reclaim()

    def close(self) -> None:
        """Release what is held, end the sessions, leave the groups. Idempotent."""
        self._waker.close()
        give_back(self._waker.take_tokens())
        with self._lock:
            try:
                for _ in range(2 if any(not session.is_answered for session in self._sessions) else 0):
                    # a claim that went along with a sleep may have run: the first call comes after the end of its
                    # connection, so what the second one finds is all there will be
                    self._beat(list(self._held.values()), {}, look=True)
                self.release()
            except Fenced:
                self._drop_all()
            for session in self._sessions:
                session.close()

    def _in_turn(self) -> list[Session]:
        """The queue that is asked first rotates, so that none starves another; its shards are in order of priority. Who
        owes an answer comes before all: what it claimed takes room that nobody else may be asked to fill."""
        self._by_queue.rotate(-1)
        in_turn = [session for sessions in self._by_queue for session in sessions]
        return sorted(in_turn, key=lambda session: session.is_answered)

    def _receive(self, session: Session, answer: Answer, dead_lettered: list[Malformed]) -> None:
        self._take(session, answer.given, dead_lettered)
        for stream, entry_id in answer.unreadable:
            self._dead_letter(session, stream, entry_id, "", dead_lettered)

    def _take(self, session: Session, given: Sequence[Given], dead_lettered: list[Malformed]) -> None:
        """Hold what was given; the caller is told of it with this call's answer, or the next one's."""
        held, fresh, queue = self._held, self._fresh, session.queue
        for item in given:
            message = item.message(queue)
            if isinstance(message, str):
                self._dead_letter(session, item.stream, item.entry.decode(), message, dead_lettered)
                continue
            claimed = Delivery(self, session, item, message)
            place = claimed.place
            if place in held:
                continue  # a beat gave it again before the lost call was repeated: it runs already
            if item.tier is _SUSPECT:
                self._suspect = place
            held[place] = claimed
            fresh.append(claimed)

    def _go_on_without(self, session: Session, error: WrongKeyType) -> None:
        """What another program wrote into one queue must not keep this engine from the others, if it has any."""
        if len(self._sessions) == 1:
            raise error
        log.warning("%s goes on without queue %s: %s", self.engine_id, session.queue, error)

    def _drop_all(self) -> None:
        for claimed in self._held.values():
            claimed.lost = True
        self._held.clear()
        self._fresh, self._gone, self._answered = [], [], {}


def _json(progress: Any) -> bytes:
    return b"" if progress is None else msgspec.json.encode(progress)
