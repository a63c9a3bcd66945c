"""The engine SDK: turns a function into an engine that Dalston can feed, watch and stop. No Django.

engine, task, outcomes   what an author uses: docs/write-an-engine.md
testing                  runs one task without Redis, for an author's own tests
manifest                 engine.yaml
identity                 which process this is and where its Redis is, from its environment
serve, __main__          the life of an engine process, under a supervisor or alone
runner                   its loop, in one thread: claims, has tasks started, settles, beats
events                   what other threads and signals put into the runner's inbox
slots                    the tasks it holds: running, and prefetched
workers                  the threads: workers that run tasks, a waiter that sleeps at Redis
settlement               an author's outcome as the broker takes it
breaker                  no work for an engine that only fails
notify, report           sd_notify; what the supervisor is told of tasks, progress and health
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
