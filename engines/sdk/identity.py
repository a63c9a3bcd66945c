"""Who this engine process is and where its Redis is, from the environment that a supervisor or an admin set."""

from __future__ import annotations

import os
import re
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path

from .breaker import Breaker


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
    artifacts: Path
    max_result_bytes: int
    breaker_failures: int
    breaker_open_s: float

    def orphaned(self) -> bool:
        """Our supervisor is gone. (Not by getppid: there may be a wrapper in between.)"""
        if self.supervisor_pid is None:
            return False
        try:
            os.kill(self.supervisor_pid, 0)
        except ProcessLookupError:
            return True
        except PermissionError:
            pass  # it is there, as another user
        return False

    def breaker(self, *, enabled: bool) -> Breaker:
        return Breaker(self.breaker_failures if enabled else 0, self.breaker_open_s)


def identify(engine: str) -> Identity:
    """For an engine with this id in its manifest."""
    env = os.environ
    node = env.get("DALSTON_NODE_ID") or re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname())
    return Identity(
        engine_id=env.get("DALSTON_ENGINE_ID") or f"{node}.{engine}.alone.{secrets.token_hex(6)}",
        node_id=node,
        redis_url=env.get("REDIS_URL", "redis://127.0.0.1:6379/0"),
        prefix=env.get("DALSTON_REDIS_PREFIX", "dalston"),
        cluster=env.get("DALSTON_REDIS_CLUSTER", "").lower() in ("1", "true", "yes", "on"),
        shards=env.get("DALSTON_REDIS_URLS", ""),
        supervised="DALSTON_ENGINE_ID" in env,
        supervisor_pid=int(env["DALSTON_SUPERVISOR_PID"]) if "DALSTON_SUPERVISOR_PID" in env else None,
        heartbeat_s=float(env.get("DALSTON_HEARTBEAT_S", "5")),
        artifacts=Path(env.get("DALSTON_ARTIFACTS_DIR", "artifacts")),
        max_result_bytes=int(env.get("DALSTON_MAX_RESULT_BYTES", str(256 * 1024))),
        breaker_failures=int(env.get("DALSTON_BREAKER_FAILURES", "5")),
        breaker_open_s=float(env.get("DALSTON_BREAKER_OPEN_S", "60")),
    )
