"""The images of deploy/docker are built on a bare Debian, and tasks run through their processes."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import ROOT
from tests.deploy.conftest import IMAGES
from tests.deploy.images import FROM_HERE, Buildah, Container, inside, written
from tests.support import Spawned, reserve_port, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

START_S = 120
STATE, FILES = "/var/lib/dalston", "/srv/dalston"


@pytest.fixture
def for_all(redis_url: str, prefix: str) -> dict[str, str]:
    return {
        "REDIS_URL": redis_url,
        "DALSTON_REDIS_PREFIX": prefix,
        "DALSTON_ARTIFACTS_URL": f"file://{FILES}/artifacts",
    }


@pytest.fixture
def server(buildah: Buildah, for_all: dict[str, str], empty_database: str) -> Container:
    made = buildah.container("dalston-server")
    made.env = {
        **for_all,
        "DATABASE_URL": empty_database,
        "DALSTON_SECRET_KEY": secrets.token_urlsafe(50),
        "DALSTON_ALLOWED_HOSTS": "127.0.0.1",
        "DALSTON_HTTPS": "0",
    }
    return made


def volume(folder: Path, user: int) -> Path:
    folder.mkdir()
    os.chown(folder, user, 0)
    return folder


def command_of(buildah: Buildah, image: str, **ports: int) -> list[str]:
    """The image's own command: but this machine's network has other programs on its port."""
    words: list[str] = buildah.image(image)["config"]["Cmd"]
    return [str(ports.get(f"port_{word}", word)) for word in words]


def once(process: Spawned) -> str:
    assert process.wait(START_S) == 0, process.output
    return process.output


def token_of(server: Container, start: Callable[..., Spawned]) -> str:
    scopes = ("--scope", "submit", "--scope", "read")
    printed = once(start(server, "dalston-manage", "token", "create", "--project", "p", "--name", "n", *scopes))
    [token] = [row for row in printed.splitlines() if row and " " not in row]
    return token


def readiness(port: int) -> tuple[int, str]:
    """The status of /readyz, and that of its check `migrations`."""
    try:
        answer = httpx.get(f"http://127.0.0.1:{port}/readyz", timeout=20)
    except httpx.TransportError:
        return 0, ""
    return answer.status_code, answer.json()["checks"].get("migrations", {}).get("status", "")


def become(wanted: tuple[int, str], ports: dict[str, int], running: dict[str, Spawned]) -> None:
    def logs() -> str:
        return "\n".join(f"{name} {readiness(port)}:\n{running[name].output}" for name, port in ports.items())

    wait_until(lambda: all(readiness(port) == wanted for port in ports.values()), START_S, logs)


@pytest.mark.keeps_keys
@pytest.mark.parametrize("user", [10001, 54321], ids=["the user of the image", "any user"])
def test_a_task_runs_through_the_images(
    buildah: Buildah,
    start: Callable[..., Spawned],
    server: Container,
    for_all: dict[str, str],
    tmp_path: Path,
    user: int,
) -> None:
    node = buildah.container("dalston-node")
    node.env = for_all
    files = volume(tmp_path / "files", user)
    server.volumes, node.volumes = {files: FILES}, {files: FILES, volume(tmp_path / "state", user): STATE}
    if user != 10001:
        server.user = node.user = f"{user}:0"

    def healthy(container: Container, at: int) -> bool:
        return start(container, "python", "/opt/dalston/healthy.py", str(at)).wait(60) == 0

    # As in Kubernetes, all starts at once: who needs the tables waits until the migrations are applied.
    ports = {"web": reserve_port(), "orchestrator": reserve_port(), "housekeeping": reserve_port()}
    running = {"web": start(server, *command_of(buildah, "dalston-server", port_8000=ports["web"]))}
    for name, command in {"orchestrator": "runorchestrator", "housekeeping": "run_huey"}.items():
        address = f"127.0.0.1:{ports[name]}"
        running[name] = start(server, "dalston-manage", command, DALSTON_METRICS_ADDRESS=address)
    running["node"] = start(node, *command_of(buildah, "dalston-node"))
    become((503, "failed"), ports, running)
    once(start(server, "dalston-manage", "migrate", "--noinput"))
    become((200, "ok"), ports, running)
    assert all(healthy(server, port) for port in ports.values())
    wait_until(lambda: readiness(9201)[0] == 200, START_S, lambda: running["node"].output)
    assert healthy(node, 9201)

    headers = {"Authorization": f"Bearer {token_of(server, start)}"}
    with httpx.Client(base_url=f"http://127.0.0.1:{ports['web']}", headers=headers, timeout=40) as api:

        def submit(task_type: str, **parameters: Any) -> str:
            answer = api.post("/api/v1/tasks", json={"task_type": task_type, "parameters": parameters})
            assert answer.status_code == 201, answer.text
            return str(answer.json()["task_id"])

        def becomes(task: str, status: str) -> dict[str, Any]:
            def found() -> dict[str, Any] | None:
                row: dict[str, Any] = api.get(f"/api/v1/tasks/{task}").json()
                return row if row["status"] == status else None

            return wait_until(found, START_S, lambda: running["node"].output)

        assert becomes(submit("echo", word="a container"), "completed")["result"] == {"word": "a container"}
        large = "x" * 20_000  # goes through the store that both share
        assert becomes(submit("echo", word=large), "completed")["result"] == {"word": large}
        assert [each for each in (files / "artifacts").rglob("*") if each.is_file()]
        styles = re.findall(r'href="(/static/[^"]+[.]css)"', api.get("/login/").text)
        assert styles and all(api.get(each).status_code == 200 for each in styles), "the static files are in the image"

        # TERM drains a node: the task that runs completes, and the process ends by itself.
        task = submit("sleep", seconds=3)
        becomes(task, "running")
        inside(running["node"]).terminate()
        assert running["node"].wait(START_S) == 0, running["node"].output
        done = becomes(task, "completed")
        assert (done["attempt"], done["deliveries"]) == (1, 0)
    for name in ports:
        inside(running[name]).terminate()
        assert running[name].wait(START_S) == 0, running[name].output
        assert "Traceback" not in running[name].output
    # So the image may be mounted read-only.
    assert written(server.root, user, {"tmp": "for files on their way"}) == []
    assert written(node.root, user, {"tmp": "of engines"}) == []


@pytest.mark.keeps_keys
def test_a_recording_becomes_text_in_a_node_with_the_engines_for_audio(
    buildah: Buildah, start: Callable[..., Spawned], server: Container, for_all: dict[str, str], tmp_path: Path
) -> None:
    node = buildah.container("dalston-audio")
    node.env = for_all
    config = tmp_path / "node.yaml"
    config.write_text("engines: [builtin]\n")
    files = volume(tmp_path / "files", 10001)
    server.volumes, node.volumes = {files: FILES}, {files: FILES, config: "/etc/dalston/node.yaml"}
    port = reserve_port()
    once(start(server, "dalston-manage", "migrate", "--noinput"))
    headers = {"Authorization": f"Bearer {token_of(server, start)}"}
    start(server, *command_of(buildah, "dalston-server", port_8000=port))
    start(server, "dalston-manage", "runorchestrator")
    engines = start(node, *command_of(buildah, "dalston-node"))
    wait_until(lambda: readiness(port) == (200, "ok"), START_S)
    recording = {"file": ("hello.wav", (ROOT / "samples" / "hello.wav").read_bytes())}
    # The model in the wheel: a test needs no network.
    url = f"http://127.0.0.1:{port}/v1/audio/transcriptions"
    answer = httpx.post(url, files=recording, data={"model": "pocketsphinx-en"}, headers=headers, timeout=60)
    assert answer.status_code == 201, answer.text

    def completed() -> dict[str, Any] | None:
        found: dict[str, Any] = httpx.get(f"{url}/{answer.json()['id']}", headers=headers, timeout=60).json()
        assert found["status"] in {"pending", "running", "completed"}, (found, engines.output)
        return found if found["status"] == "completed" else None

    done = wait_until(completed, 300, lambda: engines.output)
    assert len(done["text"].split()) > 3, done


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_has_no_tools_to_build_and_runs_as_a_user_who_may_write_nothing_of_it(
    buildah: Buildah, start: Callable[..., Spawned], image: str
) -> None:
    described = buildah.image(image)
    config = described["config"]
    assert config["User"] == "10001:10001" and config["Healthcheck"]["Test"][0] == "CMD"
    assert not any(name in variable for name in FROM_HERE for variable in config["Env"])
    history = " ".join(each.get("created_by", "") for each in described["history"])
    assert "healthy.py" in history and not re.search(r"PIP_|SECRET|of-the-build", history)
    script = """
        id -u
        for tool in pip pip3 gcc cc make git; do command -v $tool && echo "there is $tool"; done
        python -c 'import importlib.util as u; print([m for m in ("pip", "setuptools", "pytest") if u.find_spec(m)])'
        find / -xdev -writable -type f -not -path '/proc/*' -not -path '/sys/*' -not -path '/dev/*' 2>/dev/null | head
        ls -d /src /dist /build 2>/dev/null
        grep -rl of-the-build-only /opt /etc 2>/dev/null
        dalston-manage --version
    """
    found = start(buildah.container(image), "sh", "-c", script)
    # No tool, no file that the user may write, nothing of the build: only the three answers.
    assert re.fullmatch(r"10001\n\[\]\ndalston [\d.]+\n", once(found)), found.output


@pytest.mark.parametrize(
    ("image", "command", "missing"),
    [
        ("dalston-server", ("dalston-manage", "runorchestrator"), {"E001", "E002", "E004", "E006"}),
        ("dalston-server", ("dalston-manage", "run_huey"), {"E001", "E002", "E004", "E006"}),
        ("dalston-server", ("python", "-m", "dalston_site.web"), {"E001", "E002", "E004", "E006"}),
        ("dalston-node", ("dalston-manage", "runsupervisor", "--state-dir", STATE), {"E001"}),
    ],
)
def test_without_settings_a_process_ends_and_names_them(
    buildah: Buildah, start: Callable[..., Spawned], image: str, command: tuple[str, ...], missing: set[str]
) -> None:
    ended = start(buildah.container(image), *command)
    assert ended.wait(START_S) == 1
    assert set(re.findall(r"dalston\.(E\d+)", ended.output)) == missing
    assert "HINT: Set it to redis://" in ended.output and "Traceback" not in ended.output
