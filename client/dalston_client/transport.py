"""HTTP to a Dalston server: the token, retries, problem documents as exceptions, streams."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, Protocol
from urllib.parse import quote

import httpx

from dalston_client.errors import ApiError, DalstonError, NotConfigured, Unreachable, error_of
from dalston_client.retry import backoff, may_retry

CONNECT_TIMEOUT_S, ANSWER_TIMEOUT_S = 5.0, 15.0
MAX_PAGE = 200
OnRetry = Callable[[DalstonError, float], None]


class Body(Protocol):
    """The bytes of a streamed response."""

    def __call__(self) -> Iterator[bytes]: ...


class Transport:
    def __init__(self, url: str, token: str, *, retry_timeout: float, on_retry: OnRetry | None = None) -> None:
        self.url = url
        self.retry_timeout = retry_timeout
        self._on_retry = on_retry
        self._http = httpx.Client(
            base_url=f"{url}/api/v1/",
            headers={"Authorization": f"Bearer {token}", "User-Agent": "dalston-client"},
            timeout=httpx.Timeout(ANSWER_TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
        )

    def close(self) -> None:
        self._http.close()

    def call(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        repeatable: bool = True,
        wait: float = 0.0,
    ) -> Any:
        """The response's JSON. `repeatable`: sending it twice does no more than sending it once."""
        query = {name: value for name, value in (params or {}).items() if value is not None}
        if wait:
            query["wait"] = wait
        request = self._http.build_request(
            method,
            path,
            params=query,
            json=body,
            headers=headers,
            timeout=httpx.Timeout(ANSWER_TIMEOUT_S + wait, connect=CONNECT_TIMEOUT_S),
        )
        return self._sent(request, _json, repeatable=repeatable)

    def upload(
        self,
        path: str,
        fields: Mapping[str, str],
        files: Mapping[str, tuple[str, IO[bytes], str]],
        *,
        headers: Mapping[str, str],
        answer_timeout: float,
    ) -> Any:
        """A multipart form, its files read in chunks. Repeatable: the headers have an idempotency key."""
        timeout = httpx.Timeout(ANSWER_TIMEOUT_S, connect=CONNECT_TIMEOUT_S, read=answer_timeout)
        request = self._http.build_request("POST", path, data=fields, files=files, headers=headers, timeout=timeout)
        return self._sent(request, _json, repeatable=True)

    def text(self, path: str) -> str:
        """The response as it is; always UTF-8."""
        return str(self._sent(self._http.build_request("GET", path), _text, repeatable=True))

    def _sent(self, request: httpx.Request, read: Callable[[httpx.Response], Any], *, repeatable: bool) -> Any:
        started, attempt = time.monotonic(), 0
        while True:
            problem, nothing_sent = self._try(request, read)
            if not isinstance(problem, DalstonError):
                return problem
            if not may_retry(problem, repeatable=repeatable, nothing_sent=nothing_sent):
                raise problem
            self.back_off(problem, attempt, time.monotonic() - started)
            attempt += 1

    def back_off(self, problem: DalstonError, attempt: int, waited: float) -> None:
        """Sleep before the next try, or raise the problem after `retry_timeout`."""
        pause = backoff(attempt, waited, self.retry_timeout, problem.retry_after)
        if pause is None:
            raise problem
        if self._on_retry is not None:
            self._on_retry(problem, pause)
        time.sleep(pause)

    @contextmanager
    def stream(self, path: str, headers: Mapping[str, str], *, read_timeout: float) -> Iterator[Body]:
        """A streamed response. An error after `read_timeout` seconds without a byte."""
        timeout = httpx.Timeout(ANSWER_TIMEOUT_S, connect=CONNECT_TIMEOUT_S, read=read_timeout)
        try:
            with self._http.stream("GET", path, headers=headers, timeout=timeout) as response:
                if not response.is_success:
                    response.read()
                    raise error_of(response)
                yield response.iter_bytes
        except httpx.TransportError as error:
            raise self._unreachable(error) from error

    def _try(self, request: httpx.Request, read: Callable[[httpx.Response], Any]) -> tuple[Any, bool]:
        """What `read` finds in the response, or the problem, and whether it is certain that nothing was sent."""
        try:
            response = self._http.send(request)
        except httpx.TransportError as error:
            nothing_sent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
            return self._unreachable(error), nothing_sent
        if not response.is_success:
            return error_of(response), False
        try:
            return read(response), False
        except ValueError:
            detail = f"{self.url} answers, but not as Dalston does: is the address right?"
            return ApiError(response.status_code, "", detail), False

    def _unreachable(self, error: httpx.TransportError) -> DalstonError:
        if isinstance(error, httpx.UnsupportedProtocol | httpx.ProxyError):
            return NotConfigured(f"{self.url} cannot be used: {error}.")
        if "CERTIFICATE_VERIFY_FAILED" in str(error):
            return NotConfigured(
                f"The certificate of {self.url} is not trusted here: {error}. "
                "If your own CA signed it, set SSL_CERT_FILE to the file with its certificate."
            )
        timed_out = isinstance(error, httpx.TimeoutException)
        what = "did not answer in time" if timed_out else "does not answer"
        why = f": {error}" if str(error) else ""
        return Unreachable(f"{self.url} {what}{why}. Is the address right?", timed_out=timed_out)


def _json(response: httpx.Response) -> Any:
    return response.json()


def _text(response: httpx.Response) -> str:
    return response.content.decode("utf-8")


def pages(transport: Transport, path: str, limit: int, filters: Mapping[str, Any]) -> Iterator[Any]:
    """The items of a list, page after page, up to `limit`."""
    cursor: str | None = None
    while limit > 0:
        params = {**filters, "limit": min(limit, MAX_PAGE), "cursor": cursor}
        page = transport.call("GET", path, params=params)
        yield from page["items"]
        limit -= len(page["items"])
        cursor = page["next_cursor"]
        if cursor is None:
            return


def route(*parts: object) -> str:
    """A path of the API. Ids come from people, so they are quoted."""
    return "".join(f"/{quote(str(part), safe=':')}" for part in parts)
