"""StreamedBody: the body of an upload as a file, read from the client while the view reads it.

Other bodies are read by the event loop before the view runs (handler.py). An upload is read after its sender is known,
goes straight to the store, and the client is slowed down to the speed of the store: nothing of it piles up here.
"""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import TimeoutError as TooSlow
from typing import Any

from django.conf import settings

from dalston_queue.api.errors.problems import ApiProblem, Code
from dalston_queue.turns import let_others_pass

IDLE_TIMEOUT_S = 60.0
"""Without a byte for so long an upload is over: it holds a thread."""
MAX_FORM_BYTES = 1024 * 1024
"""Of everything around the file."""
_UPLOADS = re.compile(r"(/api)?/v1/audio/transcriptions")


class UploadBroken(OSError):
    """The client went away, or sends nothing."""


class UploadTooLarge(Exception):
    pass


def is_upload(scope: Mapping[str, Any]) -> bool:
    kinds = [value for name, value in scope["headers"] if name == b"content-type"]
    multipart = any(kind.lower().startswith(b"multipart/form-data") for kind in kinds)
    return scope["method"] == "POST" and multipart and _UPLOADS.fullmatch(scope["path"]) is not None


def limit() -> int:
    return int(settings.DALSTON_MAX_UPLOAD_BYTES) + MAX_FORM_BYTES


def too_large_upload() -> ApiProblem:
    detail = f"The file may have at most {settings.DALSTON_MAX_UPLOAD_BYTES} bytes (DALSTON_MAX_UPLOAD_BYTES)."
    return ApiProblem(413, Code.PAYLOAD_TOO_LARGE, detail)


class StreamedBody(io.RawIOBase):
    def __init__(self, receive: Callable[[], Awaitable[Mapping[str, Any]]]) -> None:
        """In the event loop."""
        super().__init__()
        self._receive, self._loop = receive, asyncio.get_running_loop()
        self._buffer = memoryview(b"")
        self._left = limit()
        self._ended = False

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        """On a thread. Raises UploadBroken and UploadTooLarge."""
        while not self._buffer and not self._ended:
            self._fetch()
        data, self._buffer = self._buffer[: len(target)], self._buffer[len(target) :]
        target[: len(data)] = data
        return len(data)

    def _fetch(self) -> None:
        let_others_pass()
        message = self._next()
        if message["type"] == "http.disconnect":
            self._ended = True
            raise UploadBroken("the client disconnected before its upload was complete")
        chunk = message.get("body", b"")
        self._left -= len(chunk)
        if self._left < 0:
            self._ended = True
            raise UploadTooLarge
        self._buffer = memoryview(chunk)
        self._ended = not message.get("more_body", False)

    def _next(self) -> Mapping[str, Any]:
        waiting = asyncio.run_coroutine_threadsafe(_received(self._receive), self._loop)
        try:
            return waiting.result(IDLE_TIMEOUT_S)
        except TooSlow:
            waiting.cancel()
            self._ended = True
            raise UploadBroken(f"nothing of the upload came for {IDLE_TIMEOUT_S:g} s") from None


def streamed_body(receive: Callable[[], Awaitable[Mapping[str, Any]]]) -> io.BufferedReader:
    return io.BufferedReader(StreamedBody(receive), 65_536)


async def _received(receive: Callable[[], Awaitable[Mapping[str, Any]]]) -> Mapping[str, Any]:
    return await receive()
