"""Screenshots of every page, light, dark and narrow: `python -m tests.tools.screenshots`.

Starts a Dalston of its own, submits work, and opens each page in a real Chromium. The screenshots go to
var/screenshots/, and those that the README shows to docs/images/.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import django
import httpx
from playwright.sync_api import Browser, ConsoleMessage, Page

from dalston_queue.redis import get_broker
from tests.browser.pages import until
from tests.support import reserve_port, wait_until
from tests.tools.chromium import HOW_TO_GET_IT, find_chromium
from tests.tools.chromium import running as chromium
from tests.tools.recordings import recording
from tests.tools.scenery import Scenery

ROOT = Path(__file__).resolve().parents[2]
IMAGES = ROOT / "docs" / "images"
IN_THE_README = ("overview", "queue", "job", "node", "transcription")
"""Taken once more as a window shows them: a whole page is too tall for a reader."""


def pipeline(number: int, *, urgent: bool, broken: bool) -> dict[str, Any]:
    return {
        "name": f"call-{number}.wav",
        "priority": "high" if urgent else "low" if number % 3 else "medium",
        "stages": [
            {"stage": "prepare", "parameters": {"file": f"s3://calls/2026-11-16/call-{number}.wav"}},
            {"stage": "transcribe_ch0", "after": ["prepare"], "timeout_seconds": 900},
            {"stage": "transcribe_ch1", "after": ["prepare"], "timeout_seconds": 900},
            {"stage": "diarize", "after": ["prepare"], "parameters": {"broken": broken}, "max_retries": 0},
            {"stage": "merge", "after": ["transcribe_ch0", "transcribe_ch1", "diarize"]},
        ],
    }


@dataclass(frozen=True)
class Running:
    url: str
    token: str
    password: str
    servers: dict[str, str]


@contextmanager
def dalston(data: Path) -> Iterator[Running]:
    """A whole installation with two nodes, in a folder of its own."""
    port = reserve_port()
    argv = [sys.executable, "-m", "dalston_site.up", "--data", str(data), "--port", str(port), "--nodes", "1"]
    with (data / "up.log").open("wb") as log:
        process = subprocess.Popen(argv, cwd=ROOT, stdout=log, stderr=log)
    try:
        while not (data / "dev.env").exists():
            if process.poll() is not None:
                raise RuntimeError((data / "up.log").read_text())
            time.sleep(0.2)
        lines = (data / "dev.env").read_text().splitlines()
        env = {name: shlex.split(value)[0] for name, _, value in (line.partition("=") for line in lines)}
        servers = {name: env[name] for name in ("DATABASE_URL", "REDIS_URL")}
        password = (data / "admin-password").read_text().strip()
        yield Running(f"http://127.0.0.1:{port}", env["DALSTON_TOKEN"], password, servers)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def session(running: Running) -> str:
    with httpx.Client(base_url=running.url) as client:
        client.get("/login/")
        form = {"username": "admin", "password": running.password, "csrfmiddlewaretoken": client.cookies["csrftoken"]}
        client.post("/login/", data=form, headers={"Referer": f"{running.url}/login/"})
        return client.cookies["sessionid"]


def api(running: Running) -> httpx.Client:
    headers = {"Authorization": f"Bearer {running.token}"}
    return httpx.Client(base_url=f"{running.url}/api/v1", headers=headers, timeout=40)


def submit_work(running: Running) -> tuple[str, str]:
    """Tasks that succeed, fail and wait. Returns the newest job and one of its tasks: its priority is high, so it runs
    first."""
    with api(running) as client:
        for number in range(6):
            client.post("/tasks", json={"task_type": "echo", "parameters": {"number": number}}).raise_for_status()
        failing = {"task_type": "fail", "parameters": {"message": "no audio track in the file"}, "max_retries": 0}
        client.post("/tasks", json=failing).raise_for_status()
        for number in range(18):
            body = pipeline(4700 + number, urgent=number > 14, broken=number in {15, 16})
            job = client.post("/jobs", json=body).raise_for_status().json()
        tasks = client.get(f"/jobs/{job['job_id']}").raise_for_status().json()["tasks"]
        return str(job["job_id"]), next(task["task_id"] for task in tasks if task["stage"] == "diarize")


def a_transcription(running: Running) -> str:
    with api(running) as client, recording("two_cities.wav").open("rb") as file:
        form = {"timestamp_granularities[]": ["word", "segment"], "align": "true"}
        url = f"{running.url}/v1/audio/transcriptions"
        sent = client.post(url, files={"file": file}, data=form, headers={"Prefer": "wait"}, timeout=120)
        sent.raise_for_status()
        return sent.headers["Location"].rpartition("/")[2]


def without_engines_for_audio(running: Running) -> None:
    """The scenery plays them, with tasks that run for minutes."""
    with api(running) as client:

        def node() -> dict[str, Any]:
            [found] = client.get("/nodes").raise_for_status().json()
            return dict(found)

        for engine in ("prepare", "transcribe", "align", "merge"):
            body = {"command": "scale", "engine": engine, "replicas": 0}
            client.post(f"/nodes/{node()['node_id']}/commands", json=body).raise_for_status()
        wait_until(lambda: len(node()["engines"]) == 1, 60, "only the demo engine is left")


def a_dead_letter(running: Running) -> str:
    with api(running) as client:

        def found() -> list[dict[str, str]] | None:
            items: list[dict[str, str]] = client.get("/dead_letters").raise_for_status().json()["items"]
            return items if len(items) >= 3 else None

        body = {"command": "restart", "engine": "diarize", "reason": "new weights"}
        client.post("/nodes/gpu-02/commands", json=body).raise_for_status()
        return wait_until(found, 60, "dead letters")[0]["dead_letter_id"]


class Camera:
    """Takes each page in three themes: light, dark, and 380 pixels wide."""

    def __init__(self, browser: Browser, running: Running, out: Path) -> None:
        self.errors: list[str] = []
        self._out = out
        themes: dict[str, Any] = {
            "light": {"viewport": {"width": 1280, "height": 800}},
            "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
            "380": {"viewport": {"width": 380, "height": 800}},
        }
        self.pages = {theme: self._open(browser, running, options) for theme, options in themes.items()}

    def take(self, name: str, path: str, *, until: str = "", themes: Iterable[str] = ("light", "dark", "380")) -> None:
        for theme in themes:
            page = self.pages[theme]
            page.goto(path)
            if page.locator("body[ws-connect]").count():
                page.locator("html[data-link=live]").wait_for(state="attached")
            if until:
                page.locator(until).first.wait_for()
            page.screenshot(path=self._out / f"{name}-{theme}.png", full_page=True)
            if theme == "light" and name in IN_THE_README:
                page.screenshot(path=self._out / f"{name}-window.png")

    def wait_for(self, path: str, selector: str) -> None:
        """Opens the page and waits for this element."""
        self.pages["light"].goto(path)
        self.pages["light"].locator(selector).first.wait_for(timeout=60_000)

    def log_in(self, running: Running) -> None:
        cookie = session(running)
        for page in self.pages.values():
            page.context.add_cookies([{"name": "sessionid", "value": cookie, "url": running.url}])

    def _open(self, browser: Browser, running: Running, options: dict[str, Any]) -> Page:
        context = browser.new_context(base_url=running.url, **options)
        context.on("console", self._note)
        context.on("weberror", lambda error: self.errors.append(str(error.error)))
        return context.new_page()

    def _note(self, message: ConsoleMessage) -> None:
        # The page 404 is taken, too.
        if message.type == "error" and not re.search(r"404", message.text):
            self.errors.append(f"{message.text} {message.location.get('url', '')}")


def take(running: Running, camera: Camera) -> None:
    camera.take("login", "/login/")
    camera.log_in(running)
    camera.take("overview-empty", "/")
    camera.take("nodes-empty", "/nodes/", themes=("light",))
    camera.take("transcriptions", "/transcriptions/")
    # At a moment: the word that is spoken then is marked.
    camera.take("transcription", f"/transcriptions/{a_transcription(running)}/#t=15.4", until=".w.now")
    without_engines_for_audio(running)
    job_id, task_id = submit_work(running)
    with Scenery(get_broker()) as scenery:
        camera.wait_for("/nodes/", "#node-gpu-02 .chip.ok")
        dead_letter_id = a_dead_letter(running)
        camera.wait_for("/", "#tasks .chip.busy")
        # Housekeeping runs once a minute; until then the overview warns that it did not.
        until(camera.pages["light"], "!document.getElementById('health').textContent.includes('run_huey')", 90)
        until(camera.pages["light"], "!document.getElementById('lanes').textContent.includes('no samples yet')", 60)
        for name, path in {
            "overview": "/",
            "queues": "/queues/",
            "queue": "/queues/transcribe/",
            "jobs": "/jobs/",
            "job": f"/jobs/{job_id}/",
            "task": f"/tasks/{task_id}/?actions=1",
            "dead-letters": "/dead-letters/",
            "dead-letter": f"/dead-letters/{dead_letter_id}/",
            "replay": f"/dead-letters/replay/?id={dead_letter_id}",
            "nodes": "/nodes/",
            "node": "/nodes/gpu-01/",
            "audit": "/audit/",
        }.items():
            camera.take(name, path)
        if scenery.failed:
            raise scenery.failed
    camera.take("admin", "/admin/", themes=("light", "dark"))
    camera.take("admin-job", f"/admin/dalston_queue/job/{job_id}/change/", themes=("light", "dark"))
    camera.take("not-found", "/nothing-here", themes=("light", "dark"))
    camera.take("api", "/api/v1/docs", until=".opblock", themes=("light",))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "var" / "screenshots")
    out: Path = parser.parse_args().out
    program = find_chromium() or sys.exit(HOW_TO_GET_IT)
    with (
        tempfile.TemporaryDirectory(prefix="dalston-screenshots-") as folder,
        dalston(Path(folder)) as running,
        chromium(program) as browser,
    ):
        os.environ.update(running.servers, DALSTON_DEV="1", DJANGO_SETTINGS_MODULE="dalston_site.settings")
        django.setup()
        camera = Camera(browser, running, out)
        take(running, camera)
    for name in IN_THE_README:
        shutil.copy(out / f"{name}-window.png", IMAGES / f"{name}.png")
    print(f"Screenshots are in {out}; those of the README ({', '.join(IN_THE_README)}) in {IMAGES}, too.")
    if camera.errors:
        sys.exit("The browser reported errors:\n" + "\n".join(camera.errors))


if __name__ == "__main__":
    main()
