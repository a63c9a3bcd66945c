"""/audio/transcriptions/{id}/export and /audio: the transcript as a file, and the recording, also in parts."""

from __future__ import annotations

import asyncio
import mimetypes
import re
from collections.abc import AsyncIterator
from enum import StrEnum
from pathlib import PurePath
from typing import Annotated
from uuid import UUID

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.utils.http import content_disposition_header
from ninja import Path, Router

from dalston_queue.api.auth.bearer import needs
from dalston_queue.api.auth.principal import principal_of
from dalston_queue.api.errors.problems import ApiProblem, Code, answers, not_found
from dalston_queue.api.requests.transcripts import transcript_of
from dalston_queue.api.routes.transcriptions import PATH, visible
from dalston_queue.artifacts import Store
from dalston_queue.jobs.artifacts import the_store
from dalston_queue.models.accounts import Scope
from dalston_queue.transcription.formats import FORMATS

router = Router(tags=["transcription"])
CHUNK = 256 * 1024
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")
_PLAYABLE = re.compile(r"(audio|video)/[a-z0-9.+-]+")


class Export(StrEnum):
    SRT = "srt"
    VTT = "vtt"
    TXT = "txt"
    JSON = "json"


@router.get(
    f"{PATH}/{{transcription_id}}/export/{{format}}", auth=needs(Scope.READ), response=answers({200: None}, 404, 409)
)
def export(request: HttpRequest, transcription_id: Annotated[UUID, Path()], format: Export) -> HttpResponse:  # noqa: A002
    """The transcript as text, subtitles (srt, vtt) or JSON."""
    found = visible(principal_of(request), transcription_id)
    transcript = transcript_of(found)
    if transcript is None:
        detail = f"{found.filename} has no transcript: it is {found.job.status}."
        raise ApiProblem(409, Code.STATE_CONFLICT, detail)
    chosen = FORMATS[format.value]
    name = f"{PurePath(found.filename).stem}.{format.value}"
    headers = {"Content-Disposition": content_disposition_header(as_attachment=True, filename=name) or "attachment"}
    return HttpResponse(chosen.write(transcript), content_type=chosen.content_type, headers=headers)


@router.get(
    f"{PATH}/{{transcription_id}}/audio", auth=needs(Scope.READ), response=answers({200: None, 206: None}, 404, 416)
)
def audio(request: HttpRequest, transcription_id: Annotated[UUID, Path()]) -> HttpResponse | StreamingHttpResponse:
    """The recording as it was sent, or a range of it: a player seeks by ranges."""
    found = visible(principal_of(request), transcription_id)
    ref, store = found.audio, the_store()
    if ref is None or not store.exists(ref):
        raise not_found(f"recording of {found.filename} in the store")
    size = store.size(ref)
    # A client chose the name: what is not audio or video must not run in a browser.
    guessed = mimetypes.guess_type(found.filename)[0] or ""
    headers = {
        "Content-Type": guessed if _PLAYABLE.fullmatch(guessed) else "application/octet-stream",
        "Content-Disposition": content_disposition_header(as_attachment=False, filename=found.filename) or "inline",
        "Content-Security-Policy": "sandbox; default-src 'none'",
        "X-Content-Type-Options": "nosniff",
        "Accept-Ranges": "bytes",
        "Cache-Control": "private, max-age=3600",
        "ETag": f'"{ref}"',
    }
    part = range_of(request.headers.get("Range", ""), size)
    if part is None:
        return StreamingHttpResponse(_content(store, ref, 0, size), headers={**headers, "Content-Length": str(size)})
    if not part:
        detail = f"The recording has {size} bytes."
        raise ApiProblem(416, Code.RANGE_REFUSED, detail, headers={"Content-Range": f"bytes */{size}"})
    headers |= {"Content-Length": str(len(part)), "Content-Range": f"bytes {part.start}-{part.stop - 1}/{size}"}
    return StreamingHttpResponse(_content(store, ref, part.start, len(part)), status=206, headers=headers)


def range_of(header: str, size: int) -> range | None:
    """The bytes that are asked for; an empty range if there are none such. None: all of it, for no header or one that
    is not understood, such as several ranges."""
    found = _RANGE.fullmatch(header.strip())
    if found is None or found[0] == "bytes=-":
        return None
    first, last = found.groups()
    if not first:
        return range(max(0, size - int(last)), size)
    if last and int(last) < int(first):
        return None
    return range(int(first), min(size, int(last) + 1) if last else size)


async def _content(store: Store, ref: str, offset: int, length: int) -> AsyncIterator[bytes]:
    """Read on threads: the event loop waits for no disk and no bucket."""
    opened = store.open(ref, offset, length)
    file = await asyncio.to_thread(opened.__enter__)
    try:
        while data := await asyncio.to_thread(file.read, CHUNK):
            yield data
    finally:
        await asyncio.to_thread(opened.__exit__, None, None, None)
