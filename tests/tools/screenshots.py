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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.tools.browser import Browser
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


def log_in(running: Running, browser: Browser) -> None:
    with httpx.Client(base_url=running.url) as client:
        client.get("/login/")
        form = {"username": "admin", "password": running.password, "csrfmiddlewaretoken": client.cookies["csrftoken"]}
        client.post("/login/", data=form, headers={"Referer": f"{running.url}/login/"})
        browser.cookie(running.url, "sessionid", client.cookies["sessionid"])


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


def take(running: Running, browser: Browser, out: Path) -> None:
    browser.look()
    browser.open(f"{running.url}/login/")
    browser.picture(out / "login.png")
    log_in(running, browser)
    show_overview(browser, running, out / "overview-empty.png")
    job_id = give_work(running)
    browser.wait_for("document.querySelectorAll('#tasks .chip.busy').length > 4", 30)
    browser.wait_for("!document.getElementById('health').textContent.includes('run_huey')", 90)
    browser.wait_for("!document.querySelector('#lanes .unknown')", 30)
    browser.wait_for("document.querySelectorAll('#tasks .chip.ok').length > 4", 30)
    show_overview(browser, running, out / "overview-light.png", height=860)
    shutil.copy(out / "overview-light.png", README_PICTURE)
    show_overview(browser, running, out / "overview-dark.png", height=1000, dark=True)
    show_overview(browser, running, out / "overview-380.png", width=380, height=1600)
    browser.look(height=700)
    browser.open(f"{running.url}/jobs/{job_id}/")
    browser.wait_for("document.documentElement.dataset.link === 'live'")
    browser.picture(out / "job.png")
    browser.look()
    for name, path in {
        "admin": "/admin/",
        "admin-tasks": "/admin/dalston_queue/task/",
        "admin-job": f"/admin/dalston_queue/job/{job_id}/change/",
        "not-found": "/nothing-here",
        "api": "/api/v1/docs",
    }.items():
        browser.open(running.url + path)
        if name == "api":
            browser.wait_for("document.querySelector('.opblock')", 20)
        browser.picture(out / f"{name}.png")


def show_overview(
    browser: Browser, running: Running, picture: Path, *, width: int = 1280, height: int = 900, dark: bool = False
) -> None:
    browser.look(width=width, height=height, dark=dark)
    browser.open(f"{running.url}/")
    browser.wait_for("document.documentElement.dataset.link === 'live'")
    browser.picture(picture)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "var" / "screenshots")
    out: Path = parser.parse_args().out
    with tempfile.TemporaryDirectory(prefix="dalston-pictures-") as folder:
        (Path(folder) / "data").mkdir()
        with dalston(Path(folder) / "data") as running, Browser(Path(folder) / "chromium") as browser:
            take(running, browser, out)
            wrong = [line for line in browser.errors if not re.search(r"404.*nothing-here", line)]
    print(f"Pictures are in {out}, and the README's is {README_PICTURE}, {README_PICTURE.stat().st_size // 1024} KiB.")
    if wrong:
        sys.exit("The browser reported errors:\n" + "\n".join(wrong))


if __name__ == "__main__":
    main()
