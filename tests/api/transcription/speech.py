"""Stand-ins for the engines of a transcription: they take a text file for speech.

As an engine process: `python -m tests.api.transcription.speech`, with its manifest in DALSTON_ENGINE_MANIFEST.
"""

from __future__ import annotations

from typing import Any

import msgspec

from dalston_queue.artifacts import Store
from dalston_queue.broker import Delivery
from dalston_queue.broker.protocol.messages import Completed, ErrorInfo, Failed, Outcome
from dalston_queue.broker.protocol.types import Cause
from engines.sdk import Engine, Reject, Task

QUEUES = ("prepare", "transcribe", "merge")
WORDS_PER_SECOND = 2.0


def stages(parameters: dict[str, Any]) -> dict[str, Any]:
    heard = {"audio": parameters["audio"], "offset": 0.0, "channel": 0, "words": parameters["words"]}
    return {
        "duration": 4.0,
        "channels": 1,
        "filename": parameters["filename"],
        "format": "wav",
        "peaks": [0, 50, 100],
        "$stages": [
            {"stage": "transcribe", "after": ["prepare"], "parameters": heard, "weight": 8.0},
            {"stage": "merge", "after": ["prepare", "transcribe"]},
        ],
    }


def segments(text: str) -> dict[str, Any]:
    """A segment for each line, half a second for each word."""
    found, at = [], 0.0
    for line in text.splitlines():
        words = [
            {"word": word, "start": at + n / WORDS_PER_SECOND, "end": at + (n + 1) / WORDS_PER_SECOND}
            for n, word in enumerate(line.split())
        ]
        end = at + len(words) / WORDS_PER_SECOND
        found.append({"start": at, "end": end, "text": line, "words": words, "confidence": 0.9})
        at = end
    return {"segments": found, "language": "en", "model": "stand-in", "word_times": "model"}


def transcript(part: dict[str, Any], duration: float) -> dict[str, Any]:
    numbered = [
        {**segment, "id": number, "channel": 0, "speaker": None} for number, segment in enumerate(part["segments"])
    ]
    text = " ".join(segment["text"] for segment in numbered)
    about = {name: part[name] for name in ("language", "model", "word_times")}
    return {"text": text, "duration": duration, "channels": 1, "segments": numbered, **about}


def merged(found: dict[str, Any], ref: str) -> dict[str, Any]:
    count = len(found["segments"])
    return {
        "transcript": ref,
        "preview": found["text"][:300],
        "segments": count,
        "words": len(found["text"].split()),
        **{name: found[name] for name in ("duration", "language", "model", "channels")},
    }


def answer(store: Store, delivery: Delivery) -> Outcome:
    """For an orchestrator that is driven step by step."""
    parameters, inputs = delivery.message.parameters, delivery.message.inputs
    match delivery.message.queue:
        case "prepare":
            if store.read(parameters["audio"]).startswith(b"broken"):
                return Failed(ErrorInfo(message=f"{parameters['filename']} has no audio", cause=Cause.REJECTED))
            return Completed(stages(parameters))
        case "transcribe":
            return Completed(segments(store.read(parameters["audio"]).decode(errors="replace")))
        case _:
            found = transcript(inputs["transcribe"], inputs["prepare"]["duration"])
            with store.writer() as writer:
                writer.write(msgspec.json.encode(found))
                return Completed(merged(found, writer.commit().ref))


class Speech(Engine):
    def run(self, task: Task) -> Any:
        parameters = dict(task.parameters)
        if task.queue == "prepare":
            if task.artifact(parameters["audio"]).read_bytes().startswith(b"broken"):
                return Reject(f"{parameters['filename']} has no audio")
            return stages(parameters)
        if task.queue == "transcribe":
            task.progress(0.5, "half")
            return segments(task.artifact(parameters["audio"]).read_text(errors="replace"))
        found = transcript(task.inputs["transcribe"], task.inputs["prepare"]["duration"])
        file = task.folder / "transcript.json"
        file.write_bytes(msgspec.json.encode(found))
        return merged(found, task.put_artifact(file))


if __name__ == "__main__":
    Speech().serve()
