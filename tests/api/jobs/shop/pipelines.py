"""A pipeline, imported because its app is installed."""

from collections.abc import Mapping
from typing import Any

from dalston_queue.jobs.errors import InvalidJob
from dalston_queue.jobs.submit.spec import StageSpec, pipeline


@pipeline("shout")
def shout(parameters: Mapping[str, Any]) -> list[StageSpec]:
    if not isinstance(parameters.get("channels"), int):
        raise InvalidJob("shout needs a number of channels")
    loud = [
        StageSpec(stage=f"loud_ch{n}", queue="echo", after=("prepare",), parameters={"channel": n})
        for n in range(parameters["channels"])
    ]
    return [StageSpec(stage="prepare", queue="echo"), *loud]
