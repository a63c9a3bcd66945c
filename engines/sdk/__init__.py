"""The engine SDK: makes an engine process of a function that runs a task. No Django.

engine, task, outcomes   the author's API: docs/write-an-engine.md
files                    artifacts, large results, and the scratch folder of a task
testing                  runs one task without Redis, for an author's own tests
manifest                 engine.yaml
models/                  model files: declared in models.yaml, fetched once per machine
identity                 id, node and Redis of this process, from its environment
serve, __main__          an engine process from start to exit code, under a supervisor or alone
runner                   the main loop: claims, settles, renews and releases, in one thread
slots                    the tasks that the engine holds: running, and prefetched
workers                  the threads that run tasks, and the waiter that sleeps at Redis
settlement               an author's outcome as a message to the broker
health                   answers the probe of the supervisor
logs                     JSON lines, each with the ids of its task
spans                    the spans of a task, if traces are on
breaker                  circuit breaker of an engine that only fails
notify, report           sd_notify; reports of tasks, progress and health to the supervisor
"""

from .engine import Engine, engine
from .manifest import Manifest, ManifestError, read_manifest
from .outcomes import BrokenConfigError, Cancelled, Done, Reject, Retry, TaskCancelled, TaskError
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
    "TaskError",
    "engine",
    "read_manifest",
]
