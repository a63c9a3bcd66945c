"""Redis with real Sentinels, as on docs/operate/failover.md: the primary is killed while jobs run; nothing is lost."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import httpx
import psycopg
import pytest
import redis

from tests.broker.servers import Node, nodes
from tests.conftest import ROOT
from tests.docs.blocks import blocks_of
from tests.load import Load
from tests.support import Spawned, reserve_port, wait_until

SERVER, SENTINEL, URL = blocks_of("docs/operate/failover.md", "")
PASSWORD = "a-password-of-the-test"
FAILOVER_TIMEOUT_S = 60.0
"""Of a failover on a busy machine; the page has what it takes on a quiet one."""


def here(text: str, port: int, primary: int) -> str:
    """A block of the page with the ports of this machine."""
    text = text.replace("SERVER_PASSWORD", PASSWORD)
    return (
        re.sub(r"10\.0\.0\.1 6379", f"127.0.0.1 {primary}", text)
        .replace("10.0.0.1", "127.0.0.1")
        .replace("26379", str(port))
    )


@dataclass
class Redis:
    """Three servers and three Sentinels."""

    servers: list[Node]
    sentinels: list[Node]

    @property
    def url(self) -> str:
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return here(re.sub(r"@[^/]*/", f"@{hosts}/", URL).partition("=")[2].strip(), 0, 0)

    def primary(self) -> Node:
        answer = self.sentinels[0].client.execute_command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "dalston")
        return next(server for server in self.servers if server.port == int(answer[1]))

    def is_whole(self) -> bool:
        """Two replicas of one primary, and every Sentinel sees the others."""
        try:
            with client_of(self.primary()) as client:
                joined = client.info("replication")["connected_slaves"] == 2
            facts = [sentinel.client.sentinel_master("dalston") for sentinel in self.sentinels]
        except redis.RedisError:
            return False
        return joined and all((fact["num-slaves"], fact["num-other-sentinels"]) == (2, 2) for fact in facts)


def client_of(node: Node) -> redis.Redis:
    return redis.Redis(port=node.port, password=PASSWORD, decode_responses=True)


@pytest.fixture
def three(tmp_path: Path) -> Iterator[Redis]:
    with nodes() as started:
        acl = (ROOT / "deploy/redis/users.acl").read_text()
        users = acl.replace("SERVER_PASSWORD", PASSWORD).replace("NODE_PASSWORD", f"{PASSWORD}-of-a-node")
        (tmp_path / "users.acl").write_text(users)
        base = (ROOT / "deploy/redis/dalston.conf").read_text().replace("/etc/redis", str(tmp_path))
        servers: list[Node] = []
        for number in range(3):
            node = Node(tmp_path / f"server-{number}")
            first = servers[0].port if servers else 0
            text = base + here(SERVER, 0, first) + (f"replicaof 127.0.0.1 {first}\n" if first else "")
            (node.folder / "redis.conf").write_text(text)
            node.flags = options(text)
            started.append(node.start(ready=False))
            servers.append(node)
        sentinels = []
        for number in range(3):
            folder = tmp_path / f"sentinel-{number}"
            node = Node(folder, role="sentinel")
            (folder / "sentinel.conf").write_text(f"dir {folder}\n{here(SENTINEL, node.port, servers[0].port)}")
            started.append(node.start())
            sentinels.append(node)
        made = Redis(servers, sentinels)
        wait_until(made.is_whole, 60, "three servers and three Sentinels that know each other")
        yield made


def options(text: str) -> tuple[str, ...]:
    """The lines of a configuration as arguments, which come after those of the test's own."""
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return tuple(word for line in lines for word in (f"--{line.split()[0]}", *line.split()[1:]))


@pytest.mark.slow
@pytest.mark.keeps_keys
@pytest.mark.timeout(600)
def test_the_primary_is_killed_twice_while_jobs_run_and_nothing_is_lost(
    three: Redis, spawn: Callable[..., Spawned], process_env: dict[str, str], empty_database: str, tmp_path: Path
) -> None:
    env = {**process_env, "REDIS_URL": three.url, "DATABASE_URL": empty_database, "DALSTON_REDIS_PREFIX": "dalston"}
    assert spawn("manage.py", "migrate", env=env).wait(60) == 0
    issued = spawn("manage.py", "token", "create", "--project", "failover", "--name", "load", env=env)
    assert issued.wait(60) == 0
    token = next(row for row in issued.output.splitlines() if row and " " not in row)
    port = reserve_port()
    web = spawn("-m", "dalston_site.web", "--port", str(port), "--log-level", "warning", env=env)
    servers = [
        web,
        *(spawn("manage.py", "runorchestrator", env=env) for _ in range(2)),
        spawn("manage.py", "run_huey", env=env),
    ]
    arguments = ["--engines", str(ROOT / "engines/demo"), "--state-dir", str(tmp_path / "state"), "--node-id", "n"]
    # As the user of nodes, whose rules every server has.
    of_node = three.url.replace(f"default:{PASSWORD}", f"dalston-node:{PASSWORD}-of-a-node")
    servers.append(
        spawn("manage.py", "runsupervisor", *arguments, env={**env, "DATABASE_URL": "", "REDIS_URL": of_node})
    )
    url = f"http://127.0.0.1:{port}"
    wait_until(lambda: answers(url), 60, lambda: web.output)
    figures = []
    with Load(url, token, empty_database) as jobs:
        jobs.go_on(40)
        for _ in range(2):
            killed = three.primary()
            figures.append(fail_over(three, killed, empty_database))
            jobs.go_on(40)
            killed.start(ready=False)  # it becomes a replica
            wait_until(three.is_whole, FAILOVER_TIMEOUT_S, "the old primary to follow the new one")
        jobs.go_on(40)
    jobs.nothing_is_lost(120)
    for chosen, took in figures:
        print(f"another primary after {chosen:.1f} s, jobs complete again after {took:.1f} s")
    print(f"{jobs.accepted} jobs, {len(jobs.rerun())} tasks ran again")
    assert all(process.running() for process in servers)
    assert not [process.output for process in servers if "Traceback" in process.output]
    with psycopg.connect(empty_database) as connection:
        assert connection.execute("SELECT count(*) FROM dalston_dead_letter").fetchone() == (0,)


def fail_over(three: Redis, primary: Node, database: str) -> tuple[float, float]:
    """Seconds until the Sentinels have another primary, and until a job that was submitted after the death is over."""
    primary.kill()
    start, since = time.monotonic(), now(database)
    wait_until(lambda: three.primary() is not primary, FAILOVER_TIMEOUT_S, "the Sentinels to choose another")
    chosen = time.monotonic() - start
    wait_until(lambda: completed(database, since), FAILOVER_TIMEOUT_S, "a new job to complete")
    return chosen, time.monotonic() - start


def now(database: str) -> datetime:
    with psycopg.connect(database) as connection:
        row = connection.execute("SELECT clock_timestamp()").fetchone()
    return datetime.fromisoformat(str(row[0]))


def completed(database: str, since: datetime) -> bool:
    """Whether a job that was submitted since then is over."""
    query = "SELECT 1 FROM dalston_job WHERE status = 'completed' AND created_at > %s LIMIT 1"
    with psycopg.connect(database) as connection:
        return connection.execute(query, [since]).fetchone() is not None


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=10).status_code == 200
    except httpx.TransportError:
        return False
