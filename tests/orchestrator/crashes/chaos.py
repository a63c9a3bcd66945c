"""Chaos: real processes, of which a random one is killed again and again, and started anew as by an init system."""

import random
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tests.support import Spawned

COMMANDS: dict[str, tuple[str, ...]] = {
    "orchestrator": ("manage.py", "runorchestrator"),
    "huey": ("manage.py", "run_huey"),
    "engine": ("-m", "engines.sdk", "run", "engines/demo/engine.yaml"),
}


@dataclass
class Chaos:
    """Keeps so many processes of each kind. `dice` decides which one is killed, so that a run can be repeated."""

    spawn: Callable[..., Spawned]
    env: Mapping[str, str]
    dice: random.Random
    alive: list[tuple[str, Spawned]] = field(default_factory=list)
    kills: dict[str, int] = field(default_factory=dict)

    def start(self, **counts: int) -> None:
        for kind, count in counts.items():
            for _ in range(count):
                self._start(kind)

    def kill_one(self) -> None:
        kind, process = self.alive.pop(self.dice.randrange(len(self.alive)))
        process.send(signal.SIGKILL)
        process.wait()
        self.kills[kind] = self.kills.get(kind, 0) + 1
        self._start(kind)

    def run(self, seconds: int, meanwhile: Callable[[], None]) -> None:
        """Kill a random process each second, by the clock, and call `meanwhile` before each kill."""
        begin = time.monotonic()
        for second in range(seconds):
            meanwhile()
            time.sleep(max(0.0, begin + second - time.monotonic()))
            self.kill_one()

    def stop(self) -> None:
        for _, process in self.alive:
            process.send(signal.SIGTERM)
        for _, process in self.alive:
            process.wait()

    def _start(self, kind: str) -> None:
        number = sum(self.kills.values()) + len(self.alive)
        env = {**self.env, "DALSTON_ENGINE_ID": f"lone.demo.0.boot{number}"} if kind == "engine" else self.env
        self.alive.append((kind, self.spawn(*COMMANDS[kind], env=env)))
