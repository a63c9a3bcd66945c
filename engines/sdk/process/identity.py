"""Identity of an engine process and the address of its Redis, from the environment that its supervisor or admin set."""

from __future__ import annotations

import math
import os
import secrets
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from dalston_queue import defaults
from dalston_queue.artifacts import open_store
from dalston_queue.broker.engine.breaker import Breaker, BreakerRules
from dalston_queue.broker.engine.stale import StaleRules
from dalston_queue.broker.protocol.keys import default_node_name

from ..files import LARGE_RESULT_BYTES, Workspace, scratch_folder
from ..outcomes import BrokenConfigError

N = TypeVar("N", int, float)


@dataclass(frozen=True, slots=True)
class Identity:
    engine_id: str  # node.engine.slot.boot: unique by construction, never shortened
    node_id: str
    redis_url: str
    prefix: str
    cluster: bool
    shards: str
    supervised: bool  # a supervisor beats for us and enforces deadlines
    supervisor_pid: int | None
    heartbeat_s: float
    artifacts_url: str
    scratch: str
    max_result_bytes: int
    breaker_rules: BreakerRules
    stale: StaleRules

    def orphaned(self) -> bool:
        """True once the supervisor is gone. (Not by getppid: the engine may run under a wrapper.)"""
        if self.supervisor_pid is None:
            return False
        try:
            os.kill(self.supervisor_pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass  # alive, as another user
        return False

    def workspace(self) -> Workspace:
        """Raises StoreError for an address that is none."""
        store = open_store(self.artifacts_url) if self.artifacts_url else None
        scratch = scratch_folder(self.scratch, self.engine_id, supervised=self.supervised)
        return Workspace(store, scratch, min(LARGE_RESULT_BYTES, self.max_result_bytes))

    def breaker(self, *, enabled: bool) -> Breaker:
        return Breaker(self.breaker_rules if enabled else msgspec.structs.replace(self.breaker_rules, failures=0))


def identify(engine: str) -> Identity:
    """For an engine with this id in its manifest. An empty variable counts as unset. Raises BrokenConfigError."""
    env = os.environ
    node = env.get("DALSTON_NODE_ID") or default_node_name()
    supervised_id = env.get("DALSTON_ENGINE_ID")
    return Identity(
        engine_id=supervised_id or f"{node}.{engine}.alone.{secrets.token_hex(6)}",
        node_id=node,
        redis_url=env.get("REDIS_URL") or "redis://127.0.0.1:6379/0",
        prefix=env.get("DALSTON_REDIS_PREFIX") or defaults.REDIS_PREFIX,
        cluster=env.get("DALSTON_REDIS_CLUSTER", "").lower() in ("1", "true", "yes", "on"),
        shards=env.get("DALSTON_REDIS_URLS", ""),
        supervised=bool(supervised_id),
        supervisor_pid=_number("DALSTON_SUPERVISOR_PID", 0) or None,
        heartbeat_s=_number("DALSTON_HEARTBEAT_S", defaults.HEARTBEAT_S),
        artifacts_url=env.get("DALSTON_ARTIFACTS_URL", ""),
        scratch=env.get("DALSTON_SCRATCH_DIR", ""),
        max_result_bytes=_number("DALSTON_MAX_RESULT_BYTES", defaults.MAX_RESULT_BYTES),
        breaker_rules=BreakerRules(
            failures=_number("DALSTON_BREAKER_FAILURES", defaults.BREAKER_FAILURES),
            open_s=_number("DALSTON_BREAKER_OPEN_S", defaults.BREAKER_OPEN_S),
            trials=max(1, _number("DALSTON_BREAKER_TRIALS", defaults.BREAKER_TRIALS)),
        ),
        stale=StaleRules(
            threshold_ms=_number("DALSTON_STALE_THRESHOLD_MS", defaults.STALE_THRESHOLD_MS),
            max_deliveries=_number("DALSTON_MAX_DELIVERIES", defaults.MAX_DELIVERIES),
            max_losses=_number("DALSTON_MAX_DELIVERIES_NODE_LOST", defaults.MAX_DELIVERIES_NODE_LOST),
        ),
    )


def _number(name: str, default: N) -> N:
    text = os.environ.get(name, "").strip()
    if not text:
        return default
    try:
        value = type(default)(text)
    except ValueError:
        value = type(default)(-1)
    if 0 <= value < math.inf:  # not so for nan
        return value
    kind = "a whole number" if type(default) is int else "a number"
    raise BrokenConfigError(f"{name} is {text!r}. Expected {kind}, such as {default or 30}.")
