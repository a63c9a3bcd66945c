"""The engine SDK: turns a function into an engine that Dalston can feed, watch and stop. No Django."""

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
