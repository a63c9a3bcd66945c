"""Lifecycle of one engine slot: pending, starting, loading, ready, draining, stopped, and the failures beside them.

Each function takes the state and an event and returns the new state. None touches a process.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, field, replace

from dalston_queue.broker.protocol.types import EngineState
from engines.sdk.manifest import Manifest

from ..process.exits import Exit, ExitKind
from .ladder import Climb, Rung, hang_ladder, stop_ladder

FIRST_DELAY_S = 1.0
MAX_DELAY_S = 60.0
CRASHLOOP_FAILURES = 5
CRASHLOOP_WINDOW_S = 600.0
FORGIVEN_AFTER_S = 300.0  # ready for this long: earlier failures no longer count

STARTABLE = (EngineState.PENDING, EngineState.BACKOFF, EngineState.CRASHLOOP)


@dataclass(frozen=True, slots=True)
class History:
    """Recent failures of one slot. It restarts after 1 s, doubling up to 60 s; five failures in ten minutes are a crash
    loop."""

    failures: tuple[float, ...] = ()

    def failed(self, now: float, ready_for: float) -> History:
        """Adds a failure; five minutes of being ready before it clear the earlier ones."""
        earlier = () if ready_for >= FORGIVEN_AFTER_S else self.failures
        return History((*(at for at in earlier if now - at < CRASHLOOP_WINDOW_S), now)[-64:])

    @property
    def looping(self) -> bool:
        return len(self.failures) >= CRASHLOOP_FAILURES

    def delay(self, jitter: float) -> float:
        """Seconds until the next start. `jitter`, a random number from 0 to 1, decides half of the delay."""
        if self.looping:
            return MAX_DELAY_S
        full = min(MAX_DELAY_S, FIRST_DELAY_S * 2.0 ** (len(self.failures) - 1))
        return full * (0.5 + jitter / 2)


@dataclass(frozen=True, slots=True)
class Life:
    """State of a slot. Times are of the monotonic clock."""

    state: EngineState = EngineState.PENDING
    why: str = "about to start"
    wanted: bool = True
    running: bool = False  # its process is not reaped
    started_at: float = 0.0
    ready_at: float | None = None
    sign_at: float = 0.0  # the last READY or WATCHDOG
    retry_at: float = 0.0
    history: History = field(default_factory=History)
    climb: Climb | None = None


def startable(life: Life, now: float) -> bool:
    return life.wanted and not life.running and life.state in STARTABLE and now >= life.retry_at


def waits(life: Life, why: str, until: float = 0.0) -> Life:
    """It may not start yet: no room on a GPU, no disk ..."""
    return replace(life, state=EngineState.PENDING, why=why, retry_at=max(life.retry_at, until))


def unwanted(life: Life) -> Life:
    """It will not be started again."""
    return replace(life, wanted=False)


def wanted_again(life: Life) -> Life:
    """It may be started again, and is if it was stopped."""
    state = EngineState.PENDING if life.state is EngineState.STOPPED else life.state
    return replace(life, wanted=True, state=state)


def reconsidered(life: Life) -> Life:
    """After a change of its configuration: a final or delayed start is tried again at once."""
    if life.running:
        return life
    state = life.state if life.state is EngineState.STOPPED else EngineState.PENDING
    return replace(life, state=state, history=History(), retry_at=0.0)


def spawned(life: Life, now: float) -> Life:
    return replace(life, state=EngineState.STARTING, why="", running=True, started_at=now, ready_at=None, sign_at=now)


def not_spawned(life: Life, why: str) -> Life:
    """The command can't be executed: another try won't help until the configuration changes."""
    return replace(life, state=EngineState.FATAL, why=why)


def noticed(life: Life, fields: dict[str, str], now: float) -> Life:
    """After a notice of the engine. Each feeds the watchdog, and the first ends `starting`."""
    if not life.running or life.state is EngineState.UNKILLABLE:
        return life
    # Of a stopping engine the reason of its stop is shown, not its own status.
    status = life.why if life.climb is not None else fields.get("STATUS", life.why)
    life = replace(life, sign_at=now, why=status)
    if fields.get("READY") == "1" and life.state in (EngineState.STARTING, EngineState.LOADING):
        return replace(life, state=EngineState.READY, ready_at=now)
    if life.state is EngineState.STARTING:
        return replace(life, state=EngineState.LOADING)
    return life


def stopping(life: Life, reason: str, grace: float, now: float) -> Life:
    """Starts its stop ladder. One that is stopping already changes only for a shorter grace."""
    if not life.running:
        state = life.state if life.state is EngineState.FATAL else EngineState.STOPPED
        return life if life.wanted else replace(life, state=state, why=reason)
    sooner = life.climb is None or (life.climb.step <= 1 and now + grace < life.climb.next_at())
    if not sooner:
        return life
    step = life.climb.step if life.climb else 0  # after its first TERM, another would count as the second
    return replace(life, state=EngineState.DRAINING, why=reason, climb=Climb(stop_ladder(grace), now, reason, step))


def killing(life: Life, reason: ExitKind, now: float) -> Life:
    """Hung, late or never ready: the short ladder."""
    return replace(
        life, state=EngineState.DRAINING, why=f"being ended: {reason}", climb=Climb(hang_ladder(), now, reason)
    )


def verdict(life: Life, manifest: Manifest, now: float) -> ExitKind | None:
    """NOT_READY or HANG if READY or the watchdog is overdue."""
    if not life.running or life.climb is not None:
        return None
    if life.state in (EngineState.STARTING, EngineState.LOADING) and now - life.started_at > manifest.ready_timeout:
        return ExitKind.NOT_READY
    if life.state is EngineState.READY and manifest.watchdog and now - life.sign_at > manifest.watchdog:
        return ExitKind.HANG
    return None


def climbed(life: Life, now: float) -> tuple[Life, Rung | None]:
    """The next signal of its ladder, if one is due. A minute after KILL it is unkillable, and its slot stays closed."""
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
    """After its exit. A requested stop is no failure, exit 78 is final, all else restarts after a delay."""
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
    """When this slot next has something due, without an event before."""
    if life.climb is not None:
        return life.climb.next_at()
    if not life.running:
        return max(life.retry_at, now) if life.wanted and life.state in STARTABLE else now + 3600.0
    if life.state in (EngineState.STARTING, EngineState.LOADING):
        return life.started_at + manifest.ready_timeout
    return life.sign_at + manifest.watchdog if manifest.watchdog else now + 3600.0
