"""Pipelines in code: a name, and a function from the request's parameters to stages. Every installed app may have a
module `pipelines` that registers some; it is imported at start.

@pipeline("transcription")
def transcription(parameters: Mapping[str, Any]) -> list[StageSpec]: ...
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dalston_queue.jobs.errors import InvalidJob
from dalston_queue.jobs.submit.spec import StageSpec

Builder = Callable[[Mapping[str, Any]], Sequence[StageSpec]]
_builders: dict[str, Builder] = {}


def pipeline(name: str) -> Callable[[Builder], Builder]:
    """Register a builder under a name."""

    def register(builder: Builder) -> Builder:
        if name in _builders:
            raise ValueError(f"there are two pipelines named {name!r}")
        _builders[name] = builder
        return builder

    return register


def stages_of(name: str, parameters: Mapping[str, Any]) -> tuple[StageSpec, ...]:
    """The stages of a pipeline for these parameters."""
    if name not in _builders:
        known = ", ".join(sorted(_builders)) or "none"
        raise InvalidJob(f"there is no pipeline {name!r}; known: {known}")
    return tuple(_builders[name](parameters))
