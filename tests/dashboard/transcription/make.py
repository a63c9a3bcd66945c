"""Transcriptions for tests: jobs of the pipeline, run by an engine that answers as the stages do."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.conf import settings

from dalston_queue.artifacts import open_store
from dalston_queue.broker import Broker, Delivery
from dalston_queue.broker.protocol.messages import Completed, ErrorInfo, Failed, Outcome
from dalston_queue.broker.protocol.types import Cause
from dalston_queue.jobs.submit.spec import JobSpec, StageSpec
from dalston_queue.jobs.submit.submit import submit
from tests.jobs import make
from tests.orchestrator.support import Steps, engine, run_to_the_end

QUEUES = ("prepare", "transcribe", "merge")
SENTENCES = ("It was the best of times,", "it was the <worst> of times.")
PEAKS = [abs(50 - (7 * column) % 100) for column in range(120)]
STAGES = [
    {"stage": "transcribe", "after": ["prepare"]},
    {"stage": "merge", "after": ["transcribe"]},
]


def submitted(filename: str = "two cities.wav", **parameters: Any) -> UUID:
    stage = StageSpec(stage="prepare", parameters={"filename": filename, **parameters}, max_retries=0)
    return submit(JobSpec(name="transcription", stages=(stage,)), project=make.project("default")).job_id


def transcript(*, words: bool = True, channels: int = 1, sentences: tuple[str, ...] = SENTENCES) -> dict[str, Any]:
    """A word starts every half second."""
    segments: list[dict[str, Any]] = []
    at = 0.0
    for number, text in enumerate(sentences):
        parts = text.split()
        timed = [
            {"word": word, "start": at + 0.5 * index, "end": at + 0.5 * index + 0.4, "confidence": 0.9,
             "interpolated": word == "best"}
            for index, word in enumerate(parts)
        ]  # fmt: skip
        end = at + 0.5 * len(parts)
        segments.append(
            {"id": number, "start": at, "end": end, "text": text, "channel": number % channels, "speaker": None,
             "confidence": 0.9, "words": timed if words else None}
        )  # fmt: skip
        at = end
    text = " ".join(sentences)
    return {"text": text, "language": "en", "duration": at, "model": "moonshine-tiny",
            "word_times": "model" if words else "none", "channels": channels, "segments": segments}  # fmt: skip


def stored(document: dict[str, Any]) -> str:
    return open_store(settings.DALSTON_ARTIFACTS_URL).put(io.BytesIO(json.dumps(document).encode())).ref


def answers(document: dict[str, Any]) -> Callable[[Delivery], Outcome]:
    ref = stored(document)
    prepared = {"duration": document["duration"], "channels": document["channels"], "format": "wav", "peaks": PEAKS}
    merged = {"transcript": ref, "preview": document["text"][:300], "words": 9, "segments": len(document["segments"])}
    merged |= {name: document[name] for name in ("duration", "language", "model", "channels")}

    def answer(task: Delivery) -> Outcome:
        filename = task.message.parameters.get("filename")
        if task.message.queue == "prepare":
            return Completed({**prepared, "filename": filename, "$stages": STAGES})
        return Completed(merged if task.message.queue == "merge" else {"segments": []})

    return answer


def completed(broker: Broker, filename: str = "two cities.wav", document: dict[str, Any] | None = None) -> UUID:
    return run(broker, submitted(filename), answers(document or transcript()))


def rejected(broker: Broker, filename: str = "notes.txt", sentence: str = "notes.txt has no audio") -> UUID:
    def refuse(task: Delivery) -> Outcome:
        return Failed(ErrorInfo(message=sentence, type="Rejected", cause=Cause.REJECTED))

    return run(broker, submitted(filename), refuse)


def run(broker: Broker, job_id: UUID, answer: Callable[[Delivery], Outcome]) -> UUID:
    with engine(broker, *QUEUES) as consumer:
        run_to_the_end(Steps(broker), consumer, answer)
    return job_id
