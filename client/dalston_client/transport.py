"""HTTP to one Dalston: the token, retries within a bound, problem documents as exceptions, streams."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol
from urllib.parse import quote

import httpx

from dalston_client import patience
from dalston_client.errors import ApiError, DalstonError, NotConfigured, Unreachable, error_of

CONNECT_S, ANSWER_S = 5.0, 15.0
OnRetry = Callable[[DalstonError, float], None]


class Body(Protocol):
    """The bytes of an answer, as they come."""

    def __call__(self) -> Iterator[bytes]: ...


class Transport:
    def __init__(self, url: str, token: str, *, bound: float, on_retry: OnRetry | None = None) -> None:
        self.url = url
        self.bound = bound
        """How many seconds a call may spend on being tried again."""
        self._on_retry = on_retry
        self._http = httpx.Client(
            base_url=f"{url}/api/v1/",
            headers={"Authorization": f"Bearer {token}", "User-Agent": "dalston-client"},
            timeout=httpx.Timeout(ANSWER_S, connect=CONNECT_S),
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
        """The answer's JSON. `repeatable`: sending it twice does no more than sending it once."""
        given = {name: value for name, value in (params or {}).items() if value is not None}
        if wait:
            given["wait"] = wait
        request = self._http.build_request(
            method,
            path,
            params=given,
            json=body,
            headers=headers,
            timeout=httpx.Timeout(ANSWER_S + wait, connect=CONNECT_S),
        )
        started, attempt = time.monotonic(), 0
        while True:
            problem, nothing_sent = self._try(request)
            if not isinstance(problem, DalstonError):
                return problem
            if not patience.may_pass(problem, repeatable=repeatable, nothing_sent=nothing_sent):
                raise problem
            self.hold_on(problem, attempt, time.monotonic() - started)
            attempt += 1

    def hold_on(self, problem: DalstonError, attempt: int, waited: float) -> None:
        """Sleep before the next try, or raise the problem: it has lasted long enough."""
        pause = patience.pause(attempt, waited, self.bound, problem.retry_after)
        if pause is None:
            raise problem
        if self._on_retry is not None:
            self._on_retry(problem, pause)
        time.sleep(pause)

    @contextmanager
    def stream(self, path: str, headers: Mapping[str, str], *, silence: float) -> Iterator[Body]:
        """An answer without end. Silence for longer than `silence` seconds is an error."""
        timeout = httpx.Timeout(ANSWER_S, connect=CONNECT_S, read=silence)
        try:
            with self._http.stream("GET", path, headers=headers, timeout=timeout) as response:
                if not response.is_success:
                    response.read()
                    raise error_of(response)
                yield response.iter_bytes
        except httpx.TransportError as error:
            raise self._unreachable(error) from error

    def _try(self, request: httpx.Request) -> tuple[Any, bool]:
        """The answer or the problem, and whether it is certain that nothing was sent."""
        try:
            response = self._http.send(request)
        except httpx.TransportError as error:
            nothing_sent = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)
            return self._unreachable(error), nothing_sent
        if not response.is_success:
            return error_of(response), False
        try:
            return response.json(), False
        except ValueError:
            detail = f"{self.url} answers, but not with JSON: is this the address of Dalston?"
            return ApiError(response.status_code, "", detail), False

    def _unreachable(self, error: httpx.TransportError) -> DalstonError:
        if isinstance(error, httpx.UnsupportedProtocol | httpx.ProxyError):
            return NotConfigured(f"{self.url} cannot be used: {error}.")
        timed_out = isinstance(error, httpx.TimeoutException)
        what = "did not answer in time" if timed_out else "does not answer"
        why = f": {error}" if str(error) else ""
        return Unreachable(f"{self.url} {what}{why}. Is the address right?", timed_out=timed_out)


def route(*parts: object) -> str:
    """A path of the API; ids come from people and may contain anything."""
    return "".join(f"/{quote(str(part), safe=':')}" for part in parts)
