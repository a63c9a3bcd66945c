"""The engine SDK: makes an engine process of a function that runs a task. No Django.

engine, task, outcomes   the author's API: docs/write-an-engine.md
files                    artifacts, large results, and the scratch folder of a task
testing                  runs one task without Redis, for an author's own tests
manifest                 engine.yaml
models/                  model files: declared in models.yaml, fetched once per machine
process/                 the process: its loop, its threads, its reports to the supervisor
__main__                 `python -m engines.sdk run`: an engine without a supervisor
logs                     JSON lines, each with the ids of its task
spans                    the spans of a task, if traces are on
notify                   sd_notify
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
