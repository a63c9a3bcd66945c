"""The life of one engine slot: pending, starting, loading, ready, draining, stopped, and what can go wrong beside them.

Each function takes what is known and what happened and returns what is known now. Nothing here touches a process.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, field, replace

from dalston_queue.broker.protocol.types import EngineState
from engines.sdk.manifest import Manifest

from ..process.exits import Exit, ExitKind
from .ladder import Climb, Rung, hang_ladder, stop_ladder

FIRST_DELAY = 1.0
LONGEST_DELAY = 60.0
LOOP_FAILURES = 5
LOOP_WINDOW = 600.0
FORGIVEN_AFTER = 300.0  # seconds of being ready

STARTABLE = (EngineState.PENDING, EngineState.BACKOFF, EngineState.CRASHLOOP)


@dataclass(frozen=True, slots=True)
class History:
    """The failures of one slot that still count: it starts again after 1 s, doubling up to 60 s; five failures in ten
    minutes are a crash loop."""

    failures: tuple[float, ...] = ()

    def failed(self, now: float, ready_for: float) -> History:
        """One more failure; a long healthy run before it forgives the earlier ones."""
        earlier = () if ready_for >= FORGIVEN_AFTER else self.failures
        return History((*(at for at in earlier if now - at < LOOP_WINDOW), now)[-64:])

    @property
    def looping(self) -> bool:
        return len(self.failures) >= LOOP_FAILURES

    def delay(self, jitter: float) -> float:
        """Until the next start. `jitter` is a random number from 0 to 1: half of the delay is left to it."""
        if self.looping:
            return LONGEST_DELAY
        full = min(LONGEST_DELAY, FIRST_DELAY * 2.0 ** (len(self.failures) - 1))
        return full * (0.5 + jitter / 2)


@dataclass(frozen=True, slots=True)
class Life:
    """What is known of a slot. Times are of the monotonic clock."""

    state: EngineState = EngineState.PENDING
    why: str = "about to start"
    wanted: bool = True
    running: bool = False  # it has a process that is not reaped
    started_at: float = 0.0
    ready_at: float | None = None
    sign_at: float = 0.0  # the last READY or WATCHDOG
    retry_at: float = 0.0
    history: History = field(default_factory=History)
    climb: Climb | None = None


def startable(life: Life, now: float) -> bool:
    return life.wanted and not life.running and life.state in STARTABLE and now >= life.retry_at


def waits(life: Life, why: str, until: float = 0.0) -> Life:
    """It could start but may not yet (no room on a GPU, no disk ...), and says why."""
    return replace(life, state=EngineState.PENDING, why=why, retry_at=max(life.retry_at, until))


def unwanted(life: Life) -> Life:
    """It is not to be started again."""
    return replace(life, wanted=False)


def wanted_again(life: Life) -> Life:
    """It may be started again; one that was stopped is."""
    state = EngineState.PENDING if life.state is EngineState.STOPPED else life.state
    return replace(life, wanted=True, state=state)


def reconsidered(life: Life) -> Life:
    """Its configuration changed: what was final or delayed is tried again at once."""
    if life.running:
        return life
    state = life.state if life.state is EngineState.STOPPED else EngineState.PENDING
    return replace(life, state=state, history=History(), retry_at=0.0)


def spawned(life: Life, now: float) -> Life:
    return replace(life, state=EngineState.STARTING, why="", running=True, started_at=now, ready_at=None, sign_at=now)


def not_spawned(life: Life, why: str) -> Life:
    """The command can't be executed at all: trying again won't help until the configuration changes."""
    return replace(life, state=EngineState.FATAL, why=why)


def noticed(life: Life, fields: dict[str, str], now: float) -> Life:
    """The engine spoke. READY counts once; everything is a sign of life, and the first word ends `starting`."""
    if not life.running or life.state is EngineState.UNKILLABLE:
        return life
    # One that has to go may say how far it is; why it goes is what people ask.
    status = life.why if life.climb is not None else fields.get("STATUS", life.why)
    life = replace(life, sign_at=now, why=status)
    if fields.get("READY") == "1" and life.state in (EngineState.STARTING, EngineState.LOADING):
        return replace(life, state=EngineState.READY, ready_at=now)
    if life.state is EngineState.STARTING:
        return replace(life, state=EngineState.LOADING)
    return life


def stopping(life: Life, reason: str, grace: float, now: float) -> Life:
    """Asks it to finish and go. One that already climbs a ladder is not asked again, unless for less time."""
    if not life.running:
        state = life.state if life.state is EngineState.FATAL else EngineState.STOPPED
        return life if life.wanted else replace(life, state=state, why=reason)
    sooner = life.climb is None or (life.climb.step <= 1 and now + grace < life.climb.next_at())
    if not sooner:
        return life
    step = life.climb.step if life.climb else 0  # one that has had its first TERM would take it for the second
    return replace(life, state=EngineState.DRAINING, why=reason, climb=Climb(stop_ladder(grace), now, reason, step))


def killing(life: Life, reason: ExitKind, now: float) -> Life:
    """Hung, late or never ready: the short ladder."""
    return replace(
        life, state=EngineState.DRAINING, why=f"being ended: {reason}", climb=Climb(hang_ladder(), now, reason)
    )


def verdict(life: Life, manifest: Manifest, now: float) -> ExitKind | None:
    """Is it overdue with a sign of life?"""
    if not life.running or life.climb is not None:
        return None
    if life.state in (EngineState.STARTING, EngineState.LOADING) and now - life.started_at > manifest.ready_timeout:
        return ExitKind.NOT_READY
    if life.state is EngineState.READY and manifest.watchdog and now - life.sign_at > manifest.watchdog:
        return ExitKind.HANG
    return None


def climbed(life: Life, now: float) -> tuple[Life, Rung | None]:
    """The next signal of its ladder, if one is due; a minute after KILL it is unkillable and its slot closed."""
    if life.climb is None:
        return life, None
    rung = life.climb.due(now)
    if rung is not None:
        return replace(life, climb=replace(life.climb, step=life.climb.step + 1)), rung
    if life.climb.hopeless(now) and life.state is not EngineState.UNKILLABLE:
        why = f"alive a minute after KILL ({life.climb.reason}): it hangs in the kernel; only a reboot will free it"
        return replace(life, state=EngineState.UNKILLABLE, why=why), None
    return life, None


def exited(life: Life, end: Exit, now: float, jitter: float) -> Life:
    """It is gone. What we asked for is no failure; exit 78 is final; all else comes back after a delay."""
    ready_for = 0.0 if life.ready_at is None else now - life.ready_at
    life = replace(life, running=False, climb=None, ready_at=None, why=end.text)
    if end.kind is ExitKind.CONFIG:
        return replace(life, state=EngineState.FATAL)
    if not life.wanted:
        return replace(life, state=EngineState.STOPPED)
    if end.kind is ExitKind.STOPPED and end.signal in (None, signal.SIGTERM):
        return replace(life, state=EngineState.PENDING, retry_at=now)
    history = life.history.failed(now, ready_for)
    state = EngineState.CRASHLOOP if history.looping else EngineState.BACKOFF
    return replace(life, state=state, history=history, retry_at=now + history.delay(jitter))


def next_moment(life: Life, manifest: Manifest, now: float) -> float:
    """When this slot next needs a look, if nothing happens before."""
    if life.climb is not None:
        return life.climb.next_at()
    if not life.running:
        return max(life.retry_at, now) if life.wanted and life.state in STARTABLE else now + 3600.0
    if life.state in (EngineState.STARTING, EngineState.LOADING):
        return life.started_at + manifest.ready_timeout
    return life.sign_at + manifest.watchdog if manifest.watchdog else now + 3600.0
