"""Pictures of every page, light, dark and narrow: `python -m tests.tools.screenshots`.

Starts a Dalston of its own, gives it work, and looks at it with a real Chromium. The pictures go to var/screenshots/,
and the one that the README shows to docs/images/overview.png.
"""

from __future__ import annotations

import argparse
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

import httpx
from playwright.sync_api import Browser, ConsoleMessage, Page

from tests.browser.pages import until
from tests.tools.chromium import HOW_TO_GET_IT, find_chromium
from tests.tools.chromium import running as chromium
from tests.web import free_port

ROOT = Path(__file__).resolve().parents[2]
README_PICTURE = ROOT / "docs" / "images" / "overview.png"


PIPELINE = {
    "name": "interview.wav",
    "priority": "high",
    "stages": [
        {"stage": "echo", "parameters": {"file": "interview.wav"}},
        {"stage": "sleep_ch0", "after": ["echo"], "parameters": {"seconds": 60}},
        {"stage": "sleep_ch1", "after": ["echo"], "parameters": {"seconds": 60}},
        {"stage": "fail", "after": ["sleep_ch0", "sleep_ch1"], "required": False},
    ],
}


@dataclass(frozen=True)
class Running:
    url: str
    token: str
    password: str


@contextmanager
def dalston(data: Path) -> Iterator[Running]:
    """A whole installation with two nodes, in a folder of its own."""
    port = free_port()
    argv = [sys.executable, "-m", "dalston_site.up", "--data", str(data), "--port", str(port), "--nodes", "2"]
    with (data / "up.log").open("wb") as log:
        process = subprocess.Popen(argv, cwd=ROOT, stdout=log, stderr=log)
    try:
        while not (data / "dev.env").exists():
            if process.poll() is not None:
                raise RuntimeError((data / "up.log").read_text())
            time.sleep(0.2)
        env = dict(line.split("=", 1) for line in (data / "dev.env").read_text().splitlines())
        token = shlex.split(env["DALSTON_TOKEN"])[0]
        yield Running(f"http://127.0.0.1:{port}", token, (data / "admin-password").read_text().strip())
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def session(running: Running) -> str:
    with httpx.Client(base_url=running.url) as client:
        client.get("/login/")
        form = {"username": "admin", "password": running.password, "csrfmiddlewaretoken": client.cookies["csrftoken"]}
        client.post("/login/", data=form, headers={"Referer": f"{running.url}/login/"})
        return client.cookies["sessionid"]


def give_work(running: Running) -> str:
    """Some of everything: done, failing, running, waiting. Returns the id of one job."""
    headers = {"Authorization": f"Bearer {running.token}"}
    with httpx.Client(base_url=f"{running.url}/api/v1", headers=headers, timeout=40) as client:

        def submit(**body: object) -> dict[str, str]:
            answer = client.post("/tasks", json=body).raise_for_status()
            task: dict[str, str] = answer.json()
            return task

        for number in range(6):
            submit(task_type="echo", parameters={"hello": "world", "number": number})
        submit(task_type="fail", parameters={"message": "no audio track in the file"}, max_retries=0)
        last = submit(task_type="echo", priority="high")
        client.get(f"/tasks/{last['task_id']}", params={"wait": 20})
        # The sleepers fill every slot: whatever else should be seen must be over by now.
        for seconds in (2, 3, 4, 5, 6, 7, 60, 75, 90, 120, 150, 180, 180, 180):
            submit(task_type="sleep", parameters={"seconds": seconds}, timeout_seconds=600)
        submit(task_type="sleep", parameters={"seconds": 90}, priority="high", timeout_seconds=600)
        submit(task_type="sleep", parameters={"seconds": 90}, priority="low", timeout_seconds=600)
        job: dict[str, str] = client.post("/jobs", json=PIPELINE).raise_for_status().json()
        return job["job_id"]


class Camera:
    """Pages as three people see them: by day, by night, on a telephone."""

    def __init__(self, browser: Browser, running: Running, out: Path) -> None:
        self.errors: list[str] = []
        self._out = out
        looks: dict[str, Any] = {
            "light": {"viewport": {"width": 1280, "height": 900}},
            "dark": {"viewport": {"width": 1280, "height": 900}, "color_scheme": "dark"},
            "380": {"viewport": {"width": 380, "height": 800}},
        }
        self.pages = {look: self._open(browser, running, options) for look, options in looks.items()}

    def take(self, name: str, path: str, *, until: str = "", looks: Iterable[str] = ("light", "dark", "380")) -> None:
        for look in looks:
            page = self.pages[look]
            page.goto(path)
            if page.locator("body[ws-connect]").count():
                page.locator("html[data-link=live]").wait_for(state="attached")
            if until:
                page.locator(until).first.wait_for()
            page.screenshot(path=self._out / f"{name}-{look}.png", full_page=True)

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
        # The 404 page is one of those that are taken.
        if message.type == "error" and not re.search(r"404", message.text):
            self.errors.append(f"{message.text} {message.location.get('url', '')}")


def take(running: Running, camera: Camera) -> None:
    camera.take("login", "/login/")
    camera.log_in(running)
    camera.take("overview-empty", "/")
    job_id = give_work(running)
    page = camera.pages["light"]
    for script in (
        "document.querySelectorAll('#tasks .chip.busy').length > 4",
        "!document.getElementById('health').textContent.includes('run_huey')",
        "!document.querySelector('#lanes .unknown')",
        "document.querySelectorAll('#tasks .chip.ok').length > 4",
    ):
        until(page, script, 90)
    camera.take("overview", "/")
    camera.take("job", f"/jobs/{job_id}/")
    camera.take("admin", "/admin/", looks=("light", "dark"))
    camera.take("admin-tasks", "/admin/dalston_queue/task/", looks=("light", "dark"))
    camera.take("admin-job", f"/admin/dalston_queue/job/{job_id}/change/", looks=("light", "dark"))
    camera.take("not-found", "/nothing-here", looks=("light", "dark"))
    camera.take("api", "/api/v1/docs", until=".opblock", looks=("light",))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "var" / "screenshots")
    out: Path = parser.parse_args().out
    program = find_chromium() or sys.exit(HOW_TO_GET_IT)
    with (
        tempfile.TemporaryDirectory(prefix="dalston-pictures-") as folder,
        dalston(Path(folder)) as running,
        chromium(program) as browser,
    ):
        camera = Camera(browser, running, out)
        take(running, camera)
    shutil.copy(out / "overview-light.png", README_PICTURE)
    print(f"Pictures are in {out}, and the README's is {README_PICTURE}, {README_PICTURE.stat().st_size // 1024} KiB.")
    if camera.errors:
        sys.exit("The browser reported errors:\n" + "\n".join(camera.errors))


if __name__ == "__main__":
    main()
