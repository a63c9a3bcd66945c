"""Turns: which requests of a web process work at a time. Holders take turns: none waits behind all of another's.

Python runs one thread at a time: with 64 requests of one client at work, a request of another takes 64 times as long.
So few work at a time, one of each holder while others come, and the rest wait for their turn: one holder after the
other, each with its oldest request. A request that begins to wait itself (for a task, a slot or an upload) gives
its turn up, and does not get it back: what it does afterwards is little. So does one whose thread hardly uses the
processor, because a server does not answer: that delays no other request.

A request that computes for long calls `let_others_pass` between two parts of its work: the call waits for the short
requests of others. Otherwise each of their steps would wait for Python's lock, a dozen times in a request.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, OrderedDict, deque
from contextvars import ContextVar

AT_WORK = 4
"""Of all holders. Each has one while others come as well: beside two of another, a request took 3.6 times as long as
alone, beside one 2.1 times."""
UNKNOWN = "address "
"""Begins the holders that are no known client."""
ALONE = 8
"""Of one holder while no other came in the last RECENT_S: while Postgres commits, Python can work on the next one."""
RECENT_S = 2.0
CHECK_S = 0.25
MIN_SHARE_OF_CPU = 0.1
"""In CHECK_S. What uses less waits for a server."""
SHORT_S = 0.05
"""A request counts as short until this long after its turn began."""
PASS_S = 0.01
"""The longest wait between two parts of long work; then the work goes on, however many others come."""


class Turn:
    """One request's turn, until it is given up."""

    def __init__(self, turns: Turns, holder: str) -> None:
        self._turns, self._holder = turns, holder
        self.begun = time.monotonic()
        self._held = True
        self._waited = False  # for others, since the last check
        self._loop = asyncio.get_running_loop()
        self._clock: int | None = None  # of the thread that works
        self._used = 0.0
        self._check_at = self._loop.call_later(CHECK_S, self._check)

    def begin(self) -> None:
        """In the thread that works, which outlives the turn."""
        if hasattr(time, "pthread_getcpuclockid"):  # not on macOS: there a turn lasts CHECK_S at most
            clock = time.pthread_getcpuclockid(threading.get_ident())
            self._used = time.clock_gettime(clock)
            self._clock = clock
        turn.set(self)

    def _check(self) -> None:
        """In the event loop."""
        used = self._used if self._clock is None else time.clock_gettime(self._clock)
        if used - self._used < MIN_SHARE_OF_CPU * CHECK_S and not self._waited:
            self.give_up()
        self._waited = False
        if self._held:
            self._used = used
            self._check_at = self._loop.call_later(CHECK_S, self._check)

    def over(self) -> None:
        """In the event loop: the request is served."""
        self._check_at.cancel()
        self.give_up()

    def give_up(self) -> None:
        """By any thread, more than once."""
        self._turns.end(self, self._holder)

    def let_others_pass(self) -> None:
        """In the thread that works."""
        self._waited = self._turns.wait_for_short(self._holder) or self._waited

    def finish(self) -> bool:
        """Whether the turn was held until now. Under the lock of its Turns."""
        held, self._held = self._held, False
        return held


class Turns:
    def __init__(self, limit: int = AT_WORK) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._ended = threading.Condition(self._lock)
        self._working: Counter[str] = Counter()
        self._turns: dict[Turn, str] = {}  # those that are held, with their holders
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._came: OrderedDict[str, float] = OrderedDict()  # holders by their last request

    async def take(self, holder: str) -> Turn:
        """Waits for the turn of this holder."""
        with self._lock:
            self._came[holder] = time.monotonic()
            self._came.move_to_end(holder)
            self._forget_old()
            if holder not in self._waiting and self._has_room(holder):
                self._working[holder] += 1
                return self._give(holder)
            called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(holder, deque()).append(called)
        try:
            await called
        except asyncio.CancelledError:
            self._forget(holder, called)
            raise
        with self._lock:
            return self._give(holder)

    def end(self, turn: Turn, holder: str) -> None:
        with self._lock:
            if turn.finish():
                del self._turns[turn]
                self._leave(holder)
                self._ended.notify_all()

    def wait_for_short(self, holder: str) -> bool:
        """Wait while short requests of other holders work, at most PASS_S. Whether there were any."""
        with self._lock:
            if not self._short_of_others(holder):
                return False
            self._ended.wait_for(lambda: not self._short_of_others(holder), PASS_S)
            return True

    def _short_of_others(self, holder: str) -> bool:
        oldest = time.monotonic() - SHORT_S
        return any(other != holder and turn.begun > oldest for turn, other in self._turns.items())

    def _give(self, holder: str) -> Turn:
        given = Turn(self, holder)
        self._turns[given] = holder
        return given

    def others_came(self, holder: str) -> bool:
        """Whether another holder came in the last RECENT_S."""
        with self._lock:
            self._forget_old()
            return any(other != holder for other in self._came)

    def _forget(self, holder: str, called: asyncio.Future[None]) -> None:
        """A request whose client has gone."""
        with self._lock:
            queue = self._waiting.get(holder, deque())
            if called in queue:
                queue.remove(called)
                if not queue:
                    del self._waiting[holder]
            else:  # called in that very moment
                self._leave(holder)

    def _leave(self, holder: str) -> None:
        self._working[holder] -= 1
        self._working += Counter()  # drops those with none
        while called := self._next():
            called.get_loop().call_soon_threadsafe(_call, called)

    def _next(self) -> asyncio.Future[None] | None:
        """The oldest request of the holder whose turn it is; its holder is the last one then."""
        for holder in self._waiting:
            if self._has_room(holder):
                self._working[holder] += 1
                queue = self._waiting[holder]
                called = queue.popleft()
                if queue:
                    self._waiting.move_to_end(holder)
                else:
                    del self._waiting[holder]
                return called
        return None

    def _has_room(self, holder: str) -> bool:
        own, all_ = self._working[holder], self._working.total()
        room = own == 0 and all_ < self._limit
        return room or (own == all_ < ALONE and self._is_alone())

    def _is_alone(self) -> bool:
        """Whether no other holder came lately."""
        self._forget_old()
        return len(self._came) == 1

    def _forget_old(self) -> None:
        """Holders that did not come lately."""
        oldest = time.monotonic() - RECENT_S
        while len(self._came) > 1 and next(iter(self._came.values())) < oldest:
            self._came.popitem(last=False)


def _call(called: asyncio.Future[None]) -> None:
    if not called.done():
        called.set_result(None)


turn: ContextVar[Turn | None] = ContextVar("turn", default=None)
"""Of the request that this thread works on."""


def let_others_pass() -> None:
    """Wait for short requests of others, between two parts of long work."""
    if (held := turn.get()) is not None:
        held.let_others_pass()


def give_up_turn() -> None:
    """Before a wait."""
    if (held := turn.get()) is not None:
        held.give_up()
