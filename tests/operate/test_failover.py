"""Redis with real Sentinels, as on docs/operate/failover.md: the primary is killed while jobs run; nothing is lost."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis

from tests.broker.servers import Node, nodes
from tests.conftest import ROOT
from tests.docs.blocks import blocks_of
from tests.operate.system import FAILOVER_TIMEOUT_S, System
from tests.support import Spawned, wait_until

SERVER, SENTINEL, URL = blocks_of("docs/operate/failover.md", "")
PASSWORD = "a-password-of-the-test"


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
    # Nodes as their own user, whose rules every server has.
    of_node = three.url.replace(f"default:{PASSWORD}", f"dalston-node:{PASSWORD}-of-a-node")
    system = System.start(spawn, env, tmp_path / "state", of_node)
    with system.load as jobs:
        jobs.go_on(40)
        for _ in range(2):
            killed = three.primary()
            killed.kill()
            start = time.monotonic()
            wait_until(lambda: three.primary() is not killed, FAILOVER_TIMEOUT_S, "the Sentinels to choose another")  # noqa: B023
            chosen = time.monotonic() - start
            took = system.seconds_until_a_new_job_completes(start)
            print(f"another primary after {chosen:.1f} s, a new job completed after {took:.1f} s")
            jobs.go_on(40)
            killed.start(ready=False)  # it becomes a replica
            wait_until(three.is_whole, FAILOVER_TIMEOUT_S, "the old primary to follow the new one")
        jobs.go_on(40)
    system.nothing_is_lost()
