"""The engine SDK: turns a function into an engine that Dalston can feed, watch and stop. No Django.

engine, task, outcomes, testing       what an author uses: docs/write-an-engine.md
manifest, identity                    engine.yaml; who this process is, from its environment
serve, __main__                       the life of an engine process, under a supervisor or alone
runner, happenings                    its loop: claims, has run, settles; and what it hears of meanwhile
run, workers, waiter                  a task that runs, the threads that run them, and the one that sleeps at Redis
settlement, text                      an author's outcome as the broker takes it
notify, report, watchdog              what the supervisor is told
breaker                               no work for an engine that only fails
ahead                                 more than one task per call for an engine whose tasks are quick
"""

from .engine import Engine, engine
from .manifest import Manifest, ManifestError, read_manifest
from .outcomes import BrokenConfigError, Cancelled, Done, Reject, Retry, TaskCancelled
from .task import Task

__all__ = [
    "BrokenConfigError",
    "Cancelled",
    "Done",
    "Engine",
    "Manifest",
    "ManifestError",
    "Reject",
    "Retry",
    "Task",
    "TaskCancelled",
    "engine",
    "read_manifest",
]
