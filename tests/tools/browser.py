"""A real Chromium, driven over its DevTools protocol: just enough to log in, look at a page and take its picture."""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import subprocess
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
from websockets.sync.client import ClientConnection, connect

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--remote-debugging-port=0",
    "about:blank",
)


def find_chromium() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One headless Chromium with one tab. What its pages print as errors is kept in `errors`."""

    def __init__(self, folder: Path) -> None:
        program = find_chromium()
        if program is None:
            raise RuntimeError("Chromium is not installed. On Debian: apt-get install chromium")
        folder.mkdir(parents=True, exist_ok=True)
        self._process = subprocess.Popen(
            [program, f"--user-data-dir={folder}", *FLAGS], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._numbers = itertools.count(1)
        self.errors: list[str] = []
        self._open = ExitStack()
        try:
            url = self._tab_url(folder / "DevToolsActivePort")
            self._tab: ClientConnection = self._open.enter_context(connect(url, max_size=None))
            for domain in ("Page", "Runtime", "Network", "Log"):
                self.call(f"{domain}.enable")
        except BaseException:
            self._end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        self._open.close()
        self._process.terminate()
        self._process.wait(10)

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")

    def cookie(self, url: str, name: str, value: str) -> None:
        self.call("Network.setCookie", url=url, name=name, value=value)

    def look(self, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def evaluate(self, script: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{script}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait_for(self, script: str, timeout: float = 10) -> None:
        end = time.monotonic() + timeout
        while not self.evaluate(f"!!({script})"):
            if time.monotonic() > end:
                raise AssertionError(f"not within {timeout:g} s in the browser: {script}")
            time.sleep(0.05)

    def picture(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        self._tab.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message: dict[str, Any] = json.loads(self._tab.recv(timeout=30))
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                answer: dict[str, Any] = message["result"]
                return answer
            self._note(message)

    def _note(self, message: Mapping[str, Any]) -> None:
        if message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] == "error":
            self.errors.append(f"{message['params']['entry']['text']} {message['params']['entry'].get('url', '')}")
        elif message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(str(message["params"]["exceptionDetails"]))

    def _tab_url(self, port_file: Path) -> str:
        end = time.monotonic() + 20
        while not (port_file.exists() and port_file.read_text().strip()):
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("Chromium did not start.")
            time.sleep(0.05)
        port = port_file.read_text().split()[0]
        tabs = httpx.get(f"http://127.0.0.1:{port}/json/list", timeout=10).json()
        return str(next(tab for tab in tabs if tab["type"] == "page")["webSocketDebuggerUrl"])
