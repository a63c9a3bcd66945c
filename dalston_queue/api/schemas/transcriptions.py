"""Transcriptions in the API: the form of a new one, and one as it is shown."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Literal
from uuid import UUID

from ninja import Schema
from ninja.errors import ValidationError
from pydantic import BaseModel, ConfigDict, Field
from pydantic import ValidationError as Invalid

from dalston_queue.addresses import MAX_URL
from dalston_queue.api.schemas.tasks import CallbackUrl
from dalston_queue.broker.protocol.types import Priority
from dalston_queue.jobs.lifecycle.states import JobStatus
from dalston_queue.transcription.speech_models import names
from dalston_queue.transcription.state import Transcription
from dalston_queue.transcription.wanted import Wanted, wanted_of


class ResponseFormat(StrEnum):
    JSON = "json"
    TEXT = "text"
    SRT = "srt"
    VTT = "vtt"
    VERBOSE_JSON = "verbose_json"


class Channels(StrEnum):
    MIXED = "mixed"
    SEPARATE = "separate"


class Granularity(StrEnum):
    WORD = "word"
    SEGMENT = "segment"


class TranscriptionIn(BaseModel):
    """The fields of the form beside `file`."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    audio_url: str | None = Field(
        None, min_length=1, max_length=MAX_URL, description="Instead of `file`: where an engine fetches the recording."
    )
    model: str | None = Field(
        None,
        min_length=1,
        max_length=100,
        description="`auto`, or a name of `GET /models`.",
        json_schema_extra={"enum": [*names()]},
    )
    language: str | None = Field(None, pattern=r"^[a-z]{2,3}$", description="ISO 639; without it the model finds out.")
    response_format: ResponseFormat = Field(
        ResponseFormat.JSON, description="Of the transcript, if this request waits for it."
    )
    timestamp_granularities: list[Granularity] = Field(
        default_factory=list,
        alias="timestamp_granularities[]",
        max_length=2,
        description="With `word`, times of words.",
    )
    channels: Channels = Field(Channels.MIXED, description="`separate`: each channel is a speaker of its own.")
    align: Literal["true", "false"] | None = Field(
        None,
        description="`false`: words get times only from a model that has them. Otherwise a second pass finds them.",
    )
    priority: Priority = Priority.MEDIUM
    callback_url: CallbackUrl = None

    def wanted(self, audio: str | None, filename: str) -> Wanted:
        """Raises InvalidJob."""
        return wanted_of(
            {
                "audio": audio,
                "audio_url": self.audio_url,
                "filename": filename,
                "model": self.model,
                "language": self.language,
                "channels": self.channels.value,
                "words": self.wants_words,
                "align": None if self.align is None else self.align == "true",
                "priority": self.priority.value,
            }
        )

    @property
    def wants_words(self) -> bool:
        return Granularity.WORD in self.timestamp_granularities or self.align == "true"

    @property
    def wants_segments(self) -> bool:
        return Granularity.SEGMENT in self.timestamp_granularities or not self.timestamp_granularities


LISTS = ("timestamp_granularities[]", "timestamp_granularities")


def form_of(fields: dict[str, list[str]]) -> TranscriptionIn:
    """Raises ninja's ValidationError, which names each wrong field."""
    values: dict[str, Any] = {}
    for name, found in fields.items():
        if name in LISTS:
            values["timestamp_granularities[]"] = found
        elif len(found) > 1:
            raise ValidationError([{"type": "repeated", "loc": ("form", name), "msg": "Send it once"}])
        else:
            values[name] = found[0]
    try:
        return TranscriptionIn.model_validate(values)
    except Invalid as error:
        errors = error.errors(include_url=False, include_context=False, include_input=False)
        raise ValidationError([{**each, "loc": ("form", *each["loc"])} for each in errors]) from None


def _request_body() -> dict[str, Any]:
    schema = TranscriptionIn.model_json_schema(ref_template="{model}")
    kinds = schema.pop("$defs")
    for field in schema["properties"].values():
        _inline(field, kinds)
    file = {"type": "string", "format": "binary", "description": "The recording: audio or video."}
    schema["properties"] = {**schema["properties"], "file": file}
    schema["oneOf"] = [{"required": ["file"]}, {"required": ["audio_url"]}]
    return {"required": True, "content": {"multipart/form-data": {"schema": schema}}}


def _inline(field: dict[str, Any], kinds: dict[str, Any]) -> None:
    """Without references and null: a form has neither."""
    ways = [way for way in field.pop("anyOf", []) if way != {"type": "null"}]
    for way in ways:
        field.update(way)
    if "$ref" in field:
        field.update(kinds[field.pop("$ref")])
    if "items" in field:
        _inline(field["items"], kinds)
    if field.get("default", "") is None:
        del field["default"]


REQUEST_BODY = _request_body()


class WordOut(Schema):
    word: str
    start: float
    end: float
    confidence: float | None = None
    interpolated: bool = Field(False, description="The time is a guess between two others.")


class SegmentOut(Schema):
    id: int
    start: float = Field(description="In seconds of the whole recording.")
    end: float
    text: str
    channel: int = 0
    speaker: str | None = None
    confidence: float | None = None
    words: list[WordOut] | None = None


class TranscriptionOut(BaseModel):
    id: UUID = Field(description="Also that of its job.")
    status: JobStatus
    progress: float = Field(description="From 0 to 1, by the weights of its stages.")
    filename: str
    model: str = Field(description="What was asked for; what was used, once it is completed.")
    language: str | None
    duration: float | None = Field(description="Of the recording, in seconds; null until it was probed.")
    created_at: datetime
    completed_at: datetime | None = Field(description="When it was over, well or not.")
    error: str | None = Field(description="Why it failed, with the name of the file.")


class OneTranscriptionOut(TranscriptionOut):
    """As it is read by its id."""

    waiting_for: str | None = Field(None, description="Why the stage that is next is not running yet.")
    estimated_wait: float | None = Field(
        None, description="Seconds until that stage starts, if all engines are busy and their pace is known."
    )
    word_times: str | None = Field(None, description="Where times of words come from: model, aligned or none.")
    text: str | None = Field(None, description="Null until it is completed.")
    segments: list[SegmentOut] | None = None


def shown(found: Transcription, **more: Any) -> dict[str, Any]:
    job = found.job
    return {
        "id": job.pk,
        "status": JobStatus(job.status),
        "progress": job.progress,
        "filename": found.filename,
        "model": found.model,
        "language": found.language,
        "duration": found.duration,
        "created_at": job.created_at,
        "completed_at": job.finished_at,
        "error": found.error,
        **more,
    }


class DeletedOut(Schema):
    id: UUID
    status: str = Field(description="`deleted`; or `cancelled` or `cancelling`: then it still exists.")


class ModelOut(Schema):
    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "dalston"
    languages: list[str] = Field(description="Empty: many, found by the model itself.")
    description: str
    available: bool | None = Field(description="An engine has it right now; null if Redis does not answer.")


class ModelsOut(Schema):
    object: Literal["list"] = "list"
    data: list[ModelOut]
