"""OneStepHandler: serves a request in one step on a pooled thread, from middleware to the release of its connection.

Django's own handler starts a thread for each request, and switches to it and back for every middleware that is sync
only. Ours are all sync (ADR 0005): the switches took longer than the views. Here the event loop reads the request and
writes the answer; the rest is one call on one thread, which keeps its database wrapper for the next request. Streaming
answers are sent by Django's code. Holders take turns (dalston_queue/turns.py): few requests work at a time. A client
that is not known has a pace (pace.py), and answers in memory have a bound (held.py).
"""

import asyncio
import contextvars
import json
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import IO, Any

from django.conf import settings
from django.core import signals
from django.core.exceptions import RequestAborted
from django.core.handlers.asgi import ASGIHandler, get_script_prefix
from django.db import close_old_connections
from django.http.response import FileResponse, HttpResponse, HttpResponseBase
from django.urls import set_script_prefix

from dalston_queue.api.errors.problems import MEDIA_TYPE, TITLES, Code
from dalston_queue.api.requests.stream import is_upload, streamed_body
from dalston_queue.api.subscriptions.waiting import CONNECTION
from dalston_queue.database import release_connection
from dalston_queue.turns import UNKNOWN, Turn, Turns
from dalston_site.web.held import SMALL_BYTES, Held, answers, bodies, holder_of
from dalston_site.web.holders import Holders
from dalston_site.web.pace import Pace
from dalston_site.web.protocol import STREAMED

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]

THREADS = 600
"""More than the requests that may wait at a time for a task, a job or a node (api/subscriptions/waiting.py), so that
other requests always find a thread; DALSTON_MAX_WAITING_POLLS and DALSTON_MAX_UPLOADS come on top. Threads start when
needed, and stay."""
UNKNOWN_EVERY_S = 0.005
"""Between two answers to an address without a token or a login, while others come: the event loop, which all share,
works as long on a page that does not exist as a thread does."""


class OneStepHandler(ASGIHandler):
    def __init__(self) -> None:
        # Not ASGIHandler's: that would load the middleware for async.
        self.load_middleware(is_async=False)
        self.threads = ThreadPoolExecutor(
            THREADS + settings.DALSTON_MAX_WAITING_POLLS + settings.DALSTON_MAX_UPLOADS, thread_name_prefix="request"
        )
        self._turns, self._holders, self._pace = Turns(), Holders(), Pace(UNKNOWN_EVERY_S)

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise ValueError(f"Django serves HTTP only, not {scope['type']}")
        with bodies.held() as held:
            await self._serve(scope, receive, send, held)

    async def _serve(self, scope: Any, receive: Receive, send: Send, held: Held) -> None:
        try:
            scope, body = await self._read(scope, receive, held)
        except RequestAborted:
            return
        except BodiesFull:
            await self.send_response(_full("Requests that are being read"), send)
            return
        scope[CONNECTION] = asyncio.get_running_loop(), receive
        try:
            response = await self._in_turn(scope, body)
            if response.streaming:
                scope[STREAMED] = True
                await self._stream(response, receive, send)
            else:
                await self._send(response, scope, send)
        finally:
            body.close()

    async def _send(self, response: Any, scope: Any, send: Send) -> None:
        """What is not sent yet is held in memory, for as long as its client takes to read it. The answer of a write is
        sent in any case: a client that sends the request again would do twice what was done."""
        with answers.held() as held:
            has_room = held.grow(self._holders.of(scope), len(response.content))
            if not has_room and scope["method"] in ("GET", "HEAD"):
                response = _full("Answers that are being sent")
            await self.send_response(response, send)

    async def _in_turn(self, scope: Any, body: IO[bytes]) -> HttpResponseBase:
        turn = await self._turns.take(await self.keep_pace(scope))
        try:
            response: HttpResponseBase = await self._on_a_thread(self._answer, scope, body, turn)
        finally:
            turn.over()
        return response

    async def keep_pace(self, scope: Any) -> str:
        """Whose turn comes: the holder of this request, after the pause of a client that is not known."""
        holder = self._holders.of(scope)
        if holder.startswith(UNKNOWN) and self._turns.others_came(holder):
            await asyncio.sleep(self._pace.wait_s(holder, time.monotonic()))
        return holder

    async def _read(self, scope: Any, receive: Receive, held: Held) -> tuple[Any, IO[bytes]]:
        """The body, up to the largest size of any route; the rest stays unread. So does all of a body that is not small
        and has no valid token or session: its route refuses the request without it. An
        upload is read by its view.

        Django's own handler would store a body of any size on the disk, before authentication.
        """
        if is_upload(scope):
            return scope, streamed_body(receive)
        body: IO[bytes] = tempfile.SpooledTemporaryFile(settings.FILE_UPLOAD_MAX_MEMORY_SIZE)  # noqa: SIM115
        size, more, holder = 0, True, None
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                body.close()
                raise RequestAborted
            chunk: bytes = message.get("body", b"")
            size += len(chunk)
            if size > SMALL_BYTES and holder is None:
                holder = await self._on_a_thread(_holder_of, dict(scope["headers"]))
            if size > settings.DATA_UPLOAD_MAX_MEMORY_SIZE or (size > SMALL_BYTES and holder is None):
                body.seek(0)
                body.truncate()
                return _announced(scope, max(size, settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1)), body
            if holder is not None and not held.grow(holder, size):
                body.close()
                raise BodiesFull
            body.write(chunk)
            more = message.get("more_body", False)
        body.seek(0)
        return scope, body

    async def _on_a_thread(self, function: Callable[..., Any], *arguments: Any) -> Any:
        # In a context of its own: the log context of one request must not reach the next on this thread.
        context = contextvars.copy_context()
        return await asyncio.get_running_loop().run_in_executor(self.threads, context.run, function, *arguments)

    def _answer(self, scope: Any, body: Any, turn: Turn) -> HttpResponseBase:
        turn.begin()
        set_script_prefix(get_script_prefix(scope))
        signals.request_started.send(sender=self.__class__, scope=scope)
        request, refused = self.create_request(scope, body)
        response: Any = refused if request is None else self.get_response(request)
        if request is not None:
            self._holders.learn(scope, request)
        response._handler_class = self.__class__  # noqa: SLF001 - as Django's handlers do, for request_finished
        if not response.streaming:
            response.close()  # sends request_finished, which returns this thread's connection to the pool
        else:
            close_old_connections()  # the answer may take hours
            if isinstance(response, FileResponse):
                response.block_size = self.chunk_size
        answer: HttpResponseBase = response
        return answer

    async def _stream(self, response: HttpResponseBase, receive: Receive, send: Send) -> None:
        """Sends the answer until it is complete or the client has disconnected."""
        sending = asyncio.ensure_future(self.send_response(response, send))
        leaving = asyncio.ensure_future(self.listen_for_disconnect(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (sending, leaving):
                task.cancel()
            ended, _ = await asyncio.gather(sending, leaving, return_exceptions=True)
            await self._on_a_thread(response.close)
        if isinstance(ended, Exception):
            raise ended


class BodiesFull(Exception):
    """The bodies that are being read fill the process, or the share of this client."""


def _full(what: str) -> HttpResponse:
    document = {
        "type": "urn:dalston:problem:bodies_full",
        "title": TITLES[Code.BODIES_FULL],
        "status": 503,
        "detail": f"{what} fill this process, or your share of it. Try again.",
        "code": Code.BODIES_FULL,
    }
    return HttpResponse(json.dumps(document), status=503, content_type=MEDIA_TYPE, headers={"Retry-After": "2"})


def _holder_of(headers: dict[bytes, bytes]) -> str | None:
    try:
        return holder_of(headers)
    finally:
        release_connection()


def _announced(scope: Any, size: int) -> Any:
    """The request with this Content-Length: a view that reads the body gets Django's refusal."""
    headers = [header for header in scope["headers"] if header[0] != b"content-length"]
    return {**scope, "headers": [*headers, (b"content-length", b"%d" % size)]}
