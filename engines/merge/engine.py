"""The merge engine: the transcript of a file, in the artifact store."""

from __future__ import annotations

from typing import Any

import msgspec

from engines.merge.joining import summary, transcript
from engines.sdk import Engine, Task


class Merge(Engine):
    def run(self, task: Task) -> Any:
        wanted = task.parameters
        document = transcript(wanted["parts"], task.inputs, duration=wanted["duration"], channels=wanted["channels"])
        path = task.folder / "transcript.json"
        path.write_bytes(msgspec.json.encode(document))
        return summary(document, task.put_artifact(path))


if __name__ == "__main__":
    Merge().serve()
