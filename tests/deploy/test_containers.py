"""The images of deploy/docker are built on a bare Debian, and a task runs through their processes."""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.conftest import ROOT
from tests.support import Spawned, need_tool, reserve_port, wait_until

DEBIAN = "http://deb.debian.org/debian"
CERTIFICATES = "/etc/ssl/certs"
FROM_HERE = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CERT", "PIP_DEFAULT_TIMEOUT")
"""How this machine reaches an index of packages. Nothing of it is in a file of the project."""
BUILD_S = 900

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


class Buildah:
    """Images and containers in a folder of their own, without a daemon and without namespaces."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        storage = ["--storage-driver", "vfs", "--root", str(folder / "store"), "--runroot", str(folder / "run")]
        self._program = [need_tool("buildah"), *storage]

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run(
            [*self._program, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=BUILD_S, check=False
        )
        assert done.returncode == 0, f"{arguments}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        return done.stdout.strip()

    def build(self, target: str, base: str) -> None:
        given = [f"{name}={os.environ[name]}" for name in FROM_HERE if name in os.environ]
        # The certificates of the machine, as for its own pip: they are mounted while it builds, and in no image.
        options = ["--isolation", "chroot", "--format", "docker", "-v", f"{CERTIFICATES}:{CERTIFICATES}:ro"]
        for argument in (f"BASE={base}", *given):
            options += ["--build-arg", argument]
        self("bud", *options, "-f", "deploy/docker/Dockerfile", "--target", target, "-t", f"dalston-{target}", ".")

    def container(self, image: str) -> str:
        return self("from", "--pull-never", f"localhost/{image}")

    def argv(self, container: str, env: dict[str, str], *command: str) -> list[str]:
        variables = [f"--env={name}={value}" for name, value in env.items()]
        return [*self._program, "run", "--isolation", "chroot", *variables, container, "--", *command]

    def config(self, image: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self("inspect", "--type", "image", f"localhost/{image}"))["Docker"]["config"]
        return found


@pytest.fixture(scope="module")
def buildah(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Buildah]:
    if os.geteuid() != 0:
        pytest.skip("debootstrap and buildah's chroot isolation need root")
    folder = tmp_path_factory.mktemp("images")
    made = Buildah(folder)
    root = folder / "base"
    packages = "--include=python3,python3-venv,ca-certificates"
    debootstrap = [need_tool("debootstrap"), "--variant=minbase", packages, "bookworm", str(root), DEBIAN]
    subprocess.run(debootstrap, check=True, capture_output=True, timeout=BUILD_S)
    base = made("from", "scratch")
    made("copy", "-q", base, str(root), "/")
    made("commit", "-q", base, "localhost/base")
    shutil.rmtree(root)
    for target in ("server", "node"):
        made.build(target, "localhost/base")
    yield made
    shutil.rmtree(folder)  # gigabytes


@pytest.fixture
def started() -> Iterator[list[Spawned]]:
    made: list[Spawned] = []
    yield made
    for process in made:
        for each in psutil.Process(process.pid).children(recursive=True) if process.running() else []:
            each.kill()
        process.reap()


@pytest.mark.keeps_keys
def test_a_task_runs_through_the_images(
    buildah: Buildah, started: list[Spawned], redis_url: str, prefix: str, empty_database: str, tmp_path: Path
) -> None:
    server, node = buildah.container("dalston-server"), buildah.container("dalston-node")
    for_all = {"REDIS_URL": redis_url, "DALSTON_REDIS_PREFIX": prefix}
    metrics, port = reserve_port(), reserve_port()
    settings = {
        **for_all,
        "DATABASE_URL": empty_database,
        "DALSTON_SECRET_KEY": secrets.token_urlsafe(50),
        "DALSTON_ALLOWED_HOSTS": "127.0.0.1",
        "DALSTON_HTTPS": "0",
        "DALSTON_METRICS_ADDRESS": f"127.0.0.1:{metrics}",
    }

    def run(container: str, env: dict[str, str], *command: str) -> Spawned:
        log = tmp_path / f"{len(started)}.log"
        started.append(Spawned(buildah.argv(container, env, *command), log, os.environ, ROOT))
        return started[-1]

    def run_once(*command: str) -> str:
        done = run(server, settings, *command)
        assert done.wait(120) == 0, done.output
        return done.output

    def healthy(container: str, at: int) -> bool:
        check = run(container, {}, "python", "/opt/dalston/healthy.py", str(at))
        return check.wait(60) == 0

    run_once("dalston-manage", "migrate", "--noinput")
    token = run_once(
        "dalston-manage", "token", "create", "--project", "p", "--name", "n", "--scope", "submit", "--scope", "read"
    )
    [token] = [row for row in token.splitlines() if row and " " not in row]
    web = run(server, settings, *with_port(buildah.config("dalston-server")["Cmd"], port))
    orchestrator = run(server, settings, "dalston-manage", "runorchestrator")
    supervisor = run(node, for_all, *buildah.config("dalston-node")["Cmd"])
    wait_until(lambda: healthy(server, port), 120, lambda: web.output)
    wait_until(lambda: healthy(server, metrics), 120, lambda: orchestrator.output)
    headers = {"Authorization": f"Bearer {token}"}
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=40) as api:
        task = api.post("/api/v1/tasks", json={"task_type": "echo", "parameters": {"in": "a container"}}).json()

        def completed() -> dict[str, Any] | None:
            found: dict[str, Any] = api.get(f"/api/v1/tasks/{task['task_id']}").json()
            return found if found["status"] == "completed" else None

        done = wait_until(completed, 120, lambda: supervisor.output)
        assert done["result"] == {"in": "a container"}
        styles = re.findall(r'href="(/static/[^"]+[.]css)"', api.get("/login/").text)
        assert styles and all(api.get(each).status_code == 200 for each in styles), "the static files are in the image"
    assert healthy(node, 9201)


def with_port(command: list[str], port: int) -> list[str]:
    """The image's own command: but this machine's network has other programs on 8000."""
    return [str(port) if word == "8000" else word for word in command]


@pytest.mark.parametrize("image", ["dalston-server", "dalston-node"])
def test_an_image_has_no_tools_to_build_and_runs_as_a_user_who_may_write_nothing_of_it(
    buildah: Buildah, image: str, tmp_path: Path
) -> None:
    config = buildah.config(image)
    assert config["User"] == "10001:10001" and config["Healthcheck"]["Test"][0] == "CMD"
    assert not any(name in variable for name in FROM_HERE for variable in config["Env"])
    container = buildah.container(image)
    script = """
        id -u
        for tool in pip pip3 gcc cc make git; do command -v $tool && echo "there is $tool"; done
        python -c 'import importlib.util as u; print([m for m in ("pip", "setuptools", "pytest") if u.find_spec(m)])'
        find / -xdev -writable -type f -not -path '/proc/*' -not -path '/sys/*' -not -path '/dev/*' 2>/dev/null | head
        dalston-manage --version
    """
    found = Spawned(buildah.argv(container, {}, "sh", "-c", script), tmp_path / "log", os.environ, ROOT)
    assert found.wait(60) == 0, found.output
    # No tool, no file that the user may write: only the three answers.
    assert re.fullmatch(r"10001\n\[\]\ndalston [\d.]+\n", found.output), found.output
