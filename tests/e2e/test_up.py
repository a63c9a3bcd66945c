"""The first steps of a user: `./dev up`, its hint, the `curl`, and the live page."""

import asyncio
import json
import re
import shlex
import shutil
import stat
import subprocess
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import openai
import psutil
import psycopg
import pytest
import redis
import websockets
from websockets.typing import Origin

from tests.conftest import ROOT
from tests.docs.blocks import blocks_of
from tests.e2e.conftest import Up, command_of
from tests.support import WAIT_TIMEOUT_S, keeps_time, need_tool, wait_until
from tests.tools.chromium import need_chromium
from tests.tools.chromium import running as chromium
from tests.tools.recordings import moonshine_folder


def output(up: Up) -> str:
    return next(up.data.parent.glob("up-1.log")).read_text()


def printed_curls(up: Up) -> list[str]:
    return re.findall(r"^    curl (?:.*\\\n)*.*", output(up), re.MULTILINE)


def run_printed_curl(up: Up) -> dict[str, Any]:
    """In a shell, as pasted; without curl on this machine, the same request by other means."""
    [_, printed] = printed_curls(up)
    if shutil.which("curl"):
        done = subprocess.run(printed, shell=True, capture_output=True, text=True, check=True)
        return dict(json.loads(done.stdout))
    words = shlex.split(printed)
    headers = dict(words[index + 1].split(": ") for index, word in enumerate(words) if word == "-H")
    return dict(httpx.post(words[2], headers=headers, content=words[-1], timeout=40).json())


def client(up: Up) -> httpx.Client:
    headers = {"Authorization": f"Bearer {up.env['DALSTON_TOKEN']}"}
    return httpx.Client(base_url=up.env["DALSTON_URL"], headers=headers, timeout=40)


def log_in(browser: httpx.Client, up: Up) -> None:
    """Through the form, with the login that was printed."""
    found = re.search(r"Login +(\S+) +(\S+)", output(up))
    assert found
    browser.get("/login/")
    answer = browser.post(
        "/login/",
        data={"username": found[1], "password": found[2], "csrfmiddlewaretoken": browser.cookies["csrftoken"]},
        headers={"Referer": up.env["DALSTON_URL"]},
    )
    assert answer.status_code == 200
    assert "sessionid" in browser.cookies


def test_a_full_run_logs_each_transition_and_neither_payload_nor_secret(running: Up) -> None:
    """Of all processes: one that succeeds, one that fails, one that is rejected, a wrong token, a login."""
    secret = f"payload-{uuid4().hex}"
    with client(running) as api:
        asked = [
            {"task_type": "echo", "parameters": {"text": secret}},
            {"task_type": "fail", "parameters": {"how": "reject", "message": secret}},
            {"task_type": "fail", "parameters": {"message": secret}, "max_retries": 0},
        ]
        tasks = [api.post("/api/v1/tasks", json=each).raise_for_status().json()["task_id"] for each in asked]
        ends = ("completed", "dead_letter", "dead_letter")
        for task, end in zip(tasks, ends, strict=True):
            wait_until(lambda: api.get(f"/api/v1/tasks/{task}").json()["status"] == end, what=f"{task} is {end}")  # noqa: B023
    wrong = f"wrong-{uuid4().hex}"
    assert httpx.get(f"{running.env['DALSTON_URL']}/api/v1/jobs", headers={"Authorization": wrong}).status_code == 401
    logs = [path.read_text(errors="replace") for path in (running.data / "nodes").rglob("logs/*.log")]
    # Of `up` itself only the hint is left out: it prints the login and a token on purpose.
    logs += [
        line for line in output(running).splitlines() if re.match(r"(web|orchestrator|housekeeping|node)\S* +\|", line)
    ]
    whole = "\n".join(logs)
    for event, process in (
        ("job_submitted", "web"),
        ("task_queued", "orchestrator"),
        ("task_dead_lettered", "orchestrator"),
    ):
        assert re.search(rf"^{process}\S* +\| .*{event} ", whole, re.MULTILINE), event
    for task in tasks:
        for event in ("task_started", "task_claimed", "task_settled"):
            assert re.search(rf" {event} .*task_id={task}", whole), f"{event} of {task}"
    password = re.search(r"Login +\S+ +(\S+)", output(running))
    secrets = [secret, wrong, running.env["DALSTON_TOKEN"], (running.data / "secret-key").read_text().strip()]
    assert password
    assert [each for each in (*secrets, password[1]) if each in whole] == []


def test_dev_env_is_private_and_its_addresses_work(running: Up) -> None:
    assert stat.S_IMODE((running.data / "dev.env").stat().st_mode) == 0o600
    assert set(running.env) == {"DALSTON_URL", "DALSTON_TOKEN", "DATABASE_URL", "REDIS_URL"}
    assert httpx.get(f"{running.env['DALSTON_URL']}/readyz", timeout=40).status_code == 200
    with psycopg.connect(running.env["DATABASE_URL"]) as connection:
        assert connection.execute("SELECT count(*) FROM django_migrations").fetchone() != (0,)
    with redis.Redis.from_url(running.env["REDIS_URL"]) as server:
        assert server.ping()


def test_the_printed_curl_returns_a_task_that_completes_within_two_seconds(running: Up) -> None:
    def once() -> float:
        submitted = run_printed_curl(running)
        began = time.monotonic()
        with client(running) as api:

            def finished() -> dict[str, Any] | None:
                task = api.get(f"/api/v1/tasks/{submitted['task_id']}").raise_for_status().json()
                return task if task["status"] == "completed" else None

            task = wait_until(finished, what="the task is completed")
        assert task["result"] == {"hello": "world"}
        return time.monotonic() - began

    keeps_time(2.0, once)


HELLO = "Hello and thank you for calling. We will meet again on Friday."


def plain(text: str) -> list[str]:
    return re.sub(r"[^a-z\s]", "", text.lower()).split()


def the_readme_s_curl() -> str:
    [command] = [block for block in blocks_of("README.md", "") if "curl" in block]
    return command


def shell(command: str, folder: Path) -> str:
    return subprocess.run(command, shell=True, cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def checkout(running: Up, tmp_path: Path) -> Path:
    """A folder in which the README's commands find what they name."""
    need_tool("curl")
    moonshine_folder()
    (tmp_path / "var").symlink_to(running.data)
    (tmp_path / "samples").symlink_to(ROOT / "samples")
    return tmp_path


def test_the_readme_s_curl_returns_the_right_words_within_seconds(checkout: Path) -> None:
    command = the_readme_s_curl()
    assert plain(shell(command, checkout)) == plain(HELLO)  # the engine has loaded its model by now
    readme = (ROOT / "README.md").read_text()
    [answer] = re.findall(r"^It answers `(.+)` and `(.+)` within seconds", readme, re.MULTILINE)
    assert " ".join(answer) == HELLO

    def once() -> float:
        began = time.monotonic()
        assert plain(shell(command, checkout)) == plain(HELLO)
        return time.monotonic() - began

    keeps_time(4.0, once)
    assert (ROOT / "samples" / "hello.wav").stat().st_size < 200_000


def test_the_printed_curl_for_speech_returns_the_same_words(running: Up, checkout: Path) -> None:
    [printed, _] = printed_curls(running)
    assert plain(shell(printed, checkout)) == plain(HELLO)


def test_openais_client_gets_the_words_of_a_real_model(running: Up, checkout: Path) -> None:
    whisper = openai.OpenAI(base_url=f"{running.env['DALSTON_URL']}/v1", api_key=running.env["DALSTON_TOKEN"])
    with (checkout / "samples" / "hello.wav").open("rb") as file:
        found = whisper.audio.transcriptions.create(model="whisper-1", file=file, response_format="verbose_json")
    assert plain(found.text) == plain(HELLO)
    assert 4.0 < found.duration < 5.0 and len(found.segments or ()) == 2


def test_the_page_shows_the_words_of_the_readme_s_curl_beside_a_player(running: Up, checkout: Path) -> None:
    program = need_chromium()
    shell(the_readme_s_curl(), checkout)
    with client(running) as api, httpx.Client(base_url=running.env["DALSTON_URL"], follow_redirects=True) as browser:
        job = api.get("/v1/audio/transcriptions").raise_for_status().json()["items"][0]["id"]
        log_in(browser, running)
        cookie = browser.cookies["sessionid"]
    with chromium(program) as chrome:
        page = chrome.new_page(base_url=running.env["DALSTON_URL"])
        page.context.add_cookies([{"name": "sessionid", "value": cookie, "url": running.env["DALSTON_URL"]}])
        page.goto("/transcriptions/")
        page.locator("#transcriptions a", has_text="hello.wav").first.click()
        page.wait_for_url(f"**/transcriptions/{job}/")
        page.locator("#transcript .segment").first.wait_for()
        heard = page.locator("#transcript .segment .text, #transcript .w").all_inner_texts()
        assert plain(" ".join(heard)) == plain(HELLO)
        page.wait_for_function("document.getElementById('player').duration > 4")


def test_each_process_serves_its_metrics_where_prometheus_yml_says(running: Up) -> None:
    config = json.loads((running.data / "prometheus.yml").read_text())
    [scrape] = config["scrape_configs"]
    addresses = {each["labels"]["process"]: each["targets"][0] for each in scrape["static_configs"]}
    assert addresses.keys() == {"web", "orchestrator-1", "housekeeping", "node-1"}
    own = {
        "web": "dalston_http_requests_total",
        "orchestrator-1": "dalston_events_applied_total",
        "housekeeping": "dalston_duty_runs_total",
        "node-1": "dalston_node_engines",
    }
    for process, address in addresses.items():
        assert f"# TYPE {own[process]} " in httpx.get(f"http://{address}/metrics", timeout=40).text


def test_every_line_has_the_name_of_its_process_in_front(running: Up) -> None:
    prefixed, _, _ = output(running).partition("\nDalston is running.")
    assert {line.split("|")[0].strip() for line in prefixed.splitlines()} >= {"up", "orchestrator-1"}
    assert all(re.match(r"[a-z0-9-]+ +\| ", line) for line in prefixed.splitlines()), prefixed


def test_the_overview_page_gets_a_finished_task_over_its_socket(running: Up) -> None:
    marker = f"m{uuid4().hex[:10]}"
    with (
        httpx.Client(base_url=running.env["DALSTON_URL"], follow_redirects=True, timeout=40) as browser,
        client(running) as api,
    ):
        log_in(browser, running)
        page = browser.get("/")
        assert page.status_code == 200
        cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
        host = running.env["DALSTON_URL"].removeprefix("http://")

        async def submit_and_listen() -> str:
            async with websockets.connect(
                f"ws://{host}/ws/overview/", additional_headers={"Cookie": cookies}, origin=Origin(f"http://{host}")
            ) as socket:
                submitted = api.post(
                    "/api/v1/tasks", json={"task_type": "echo", "parameters": {"marker": marker}}
                ).json()
                task_id = submitted["task_id"]
                heard = ""
                async with asyncio.timeout(WAIT_TIMEOUT_S):
                    while not (task_id in heard and "completed" in heard.partition(task_id)[2]):
                        heard += str(await socket.recv())
                return heard

        assert asyncio.run(submit_and_listen())


def test_a_socket_from_another_site_is_refused(running: Up) -> None:
    host = running.env["DALSTON_URL"].removeprefix("http://")

    async def knock() -> int:
        try:
            async with websockets.connect(f"ws://{host}/ws/overview/", origin=Origin("https://evil.example")):
                return 101
        except websockets.InvalidStatus as refused:
            return refused.response.status_code

    assert asyncio.run(knock()) == 403


def test_nodes_and_engines_see_redis_and_no_secret(running: Up) -> None:
    """Read from the running processes themselves."""
    supervisor = running.process("runsupervisor")
    engines = [it for it in supervisor.children(recursive=True) if "engine.py" in " ".join(command_of(it))]
    assert engines
    password = running.env["DATABASE_URL"].split("@")[0].rpartition(":")[2]
    for process in [supervisor, *engines]:
        environment = process.environ()
        assert environment["REDIS_URL"] == running.env["REDIS_URL"]
        assert not environment.keys() & {"DATABASE_URL", "DALSTON_SECRET_KEY", "DALSTON_TOKEN"}
        assert password not in " ".join([*environment.values(), *process.cmdline()])


def test_no_secret_is_on_a_command_line(running: Up) -> None:
    secrets = [*(running.env[name].split("@")[0].rpartition(":")[2] for name in ("DATABASE_URL", "REDIS_URL"))]
    lines = " ".join(" ".join(command_of(it)) for it in psutil.process_iter())
    assert not any(secret in lines for secret in [*secrets, running.env["DALSTON_TOKEN"]])
