"""Transcriptions: the calls, which Client has as methods, and the types of their answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import IO, Any, Literal, TypedDict, cast
from uuid import uuid4

from dalston_client.answers import Priority
from dalston_client.transport import Transport, pages, route
from dalston_client.waiting import wait_until_over

TranscriptFormat = Literal["txt", "srt", "vtt", "json"]
UPLOAD_ANSWER_TIMEOUT_S = 120.0
"""The server answers when the whole file is in its store, which may be in another region."""


class Word(TypedDict):
    word: str
    start: float
    end: float
    confidence: float | None
    interpolated: bool


class Segment(TypedDict):
    id: int
    start: float
    end: float
    text: str
    channel: int
    speaker: str | None
    confidence: float | None
    words: list[Word] | None


class Transcription(TypedDict):
    id: str
    status: str
    progress: float
    filename: str
    model: str
    language: str | None
    duration: float | None
    created_at: str
    completed_at: str | None
    error: str | None


class OneTranscription(Transcription):
    waiting_for: str | None
    estimated_wait: float | None
    word_times: str | None
    text: str | None
    segments: list[Segment] | None


class DeletedTranscription(TypedDict):
    id: str
    status: str


class Model(TypedDict):
    id: str
    object: str
    created: int
    owned_by: str
    languages: list[str]
    description: str
    available: bool | None


class TranscriptionCalls:
    _transport: Transport

    def transcribe(
        self,
        file: IO[bytes],
        filename: str,
        *,
        model: str | None = None,
        language: str | None = None,
        channels: Literal["mixed", "separate"] | None = None,
        words: bool = False,
        priority: Priority | None = None,
        callback_url: str | None = None,
        idempotency_key: str | None = None,
    ) -> OneTranscription:
        """Submit a recording. `file` is read in chunks, and from its start again if the call is repeated.

        `words`: with the time of each word. The same idempotency key for 24 h is the same transcription.
        """
        fields = {"model": model, "language": language, "channels": channels, "priority": priority}
        fields["callback_url"] = callback_url
        fields["timestamp_granularities[]"] = "word" if words else None
        answer = self._transport.upload(
            _url(),
            {name: value for name, value in fields.items() if value is not None},
            {"file": (filename, file, "application/octet-stream")},
            headers={"Idempotency-Key": idempotency_key or uuid4().hex},
            answer_timeout=UPLOAD_ANSWER_TIMEOUT_S,
        )
        return cast(OneTranscription, answer)

    def transcription(self, transcription_id: str, *, wait: float = 0.0) -> OneTranscription:
        """With its text and segments once it is completed; with `wait` (up to 30 s) not before, if that is in time."""
        answer = self._transport.call("GET", _url(transcription_id), wait=wait)
        return cast(OneTranscription, answer)

    def transcriptions(self, *, limit: int = 50, **filters: Any) -> Iterator[Transcription]:
        """Newest first, without their texts; by status, idempotency_key."""
        return pages(self._transport, _url(), limit, cast(Mapping[str, Any], filters))

    def wait_for_transcription(self, transcription_id: str, *, timeout: float | None = None) -> OneTranscription:
        """The transcription when it is over, or as it is after `timeout` seconds."""

        def ask(wait: float) -> OneTranscription:
            return self.transcription(transcription_id, wait=wait)

        return wait_until_over(ask, timeout)

    def models(self) -> list[Model]:
        """The models that transcribe, and whether an engine has them now."""
        return cast(list[Model], self._transport.call("GET", "/models")["data"])

    def export_transcription(self, transcription_id: str, format: TranscriptFormat) -> str:  # noqa: A002  # the API's word
        """The transcript as the content of a file."""
        return self._transport.text(_url(transcription_id, "export", format))

    def delete_transcription(self, transcription_id: str) -> DeletedTranscription:
        """Cancel it if it is not over; otherwise forget it, with its recording and its transcript."""
        return cast(DeletedTranscription, self._transport.call("DELETE", _url(transcription_id)))


def _url(*parts: str) -> str:
    return route("audio", "transcriptions", *parts)
