"""The ACL of docs/redis-keys.md: a node works as that user, who may do nothing else."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import redis
import yaml

from dalston_queue.broker import connect
from dalston_queue.broker.nodes.commands import Command
from dalston_queue.broker.protocol.types import EventKind
from dalston_site.embedded.server import Server
from tests.docs.blocks import blocks_of
from tests.supervisor.node import Node, kill
from tests.support import Spawned, wait_until

PREFIX = "acl-test"
PASSWORD = "a-password-of-the-test"


def documented() -> list[str]:
    """The rules of the page, for our prefix and password."""
    (block,) = blocks_of("docs/redis-keys.md", "")
    rules = block.removeprefix("ACL SETUSER dalston-node ")
    return rules.replace("dalston:", f"{PREFIX}:").replace("PASSWORD", PASSWORD).split()


class Servers(NamedTuple):
    """A server with that user."""

    admin: str
    user: str


@pytest.fixture
def urls(valkey_server: Callable[..., Server]) -> Servers:
    admin = valkey_server().url
    with redis.Redis.from_url(admin) as client:
        client.execute_command("ACL SETUSER", "dalston-node", *documented())
    return Servers(admin, re.sub(r"//:[^@]*@", f"//dalston-node:{PASSWORD}@", admin))


@pytest.fixture
def node(urls: Servers, spawn: Callable[..., Spawned], process_env: dict[str, str], tmp_path: Path) -> Iterator[Node]:
    env = {**process_env, "REDIS_URL": urls.user, "DALSTON_REDIS_PREFIX": PREFIX, "DALSTON_HEARTBEAT_S": "0.2"}
    env["DALSTON_MAX_DELIVERIES"] = "2"
    broker = connect(urls.admin, prefix=PREFIX)
    made = Node(broker, spawn, env, tmp_path, "node-a")
    yield made
    made.stop()
    broker.close()


def send(node: Node, name: str, **arguments: Any) -> None:
    channel = node.broker.node(node.name)
    command_id = channel.send(Command(name=name, arguments=arguments, actor="ada"))

    def done() -> bool:
        found = channel.status(command_id)
        return bool(found and found.ended)

    wait_until(done, what=f"the end of {name}")


def refusals(urls: Servers) -> list[str]:
    with redis.Redis.from_url(urls.admin, decode_responses=True) as client:
        return [f"{entry['reason']} {entry['object']} ({entry['context']})" for entry in client.acl_log()]


def test_a_node_does_all_of_its_work_as_that_user(urls: Servers, node: Node) -> None:
    node.engine(replicas=2, capacity=2, capabilities=["big"])
    process = node.start()
    node.ready(2)
    node.result(node.submit("ready"))
    node.wait_event(node.submit("fail"), EventKind.TASK_FAILED)
    slow = node.submit("slow", seconds=60, timeout_ms=60_000)
    kill(node.pid_of(node.started(slow).engine_id))  # reclaimed by the supervisor
    node.started(slow, times=2)
    assert node.broker.request_cancel("work", slow) == "flagged"
    node.wait_event(slow, EventKind.TASK_CANCELLED)
    node.wait_event(node.submit("hang", timeout_ms=1000), EventKind.TASK_FAILED)  # expired by the supervisor
    node.wait_event(node.submit("poison"), EventKind.TASK_EXHAUSTED, timeout=60)
    assert node.broker.logs(node.name).tail("fix.0", lines=10).lines
    for name in ("cordon", "uncordon", "drain", "resume"):
        send(node, name)
    node.ready(2)
    assert process.stop() == 0
    assert refusals(urls) == []
    assert "Traceback" not in process.output


def test_an_engine_that_runs_alone_works_as_that_user(urls: Servers, node: Node) -> None:
    node.engine()
    manifest = str(node.engines_dir / "fix" / "engine.yaml")
    engine = node.spawn("-m", "engines.sdk", "run", manifest, env=node.env)
    assert node.result(node.submit("say", text="hello")) is None
    assert engine.stop() == 0
    assert refusals(urls) == []


def test_doctor_works_as_that_user(urls: Servers, node: Node) -> None:
    node.config["node"] = "named-in-the-file"
    node.engine()
    (node.folder / "node.yaml").write_text(yaml.safe_dump(node.config))
    env = {**node.env, "HOME": str(node.folder)}
    doctor = node.spawn("manage.py", "doctor", "--config", str(node.folder / "node.yaml"), env=env)
    assert doctor.wait() < 2, doctor.output
    assert "ok        redis: its user may not read INFO" in doctor.output
    assert "/named-in-the-file" in doctor.output
    assert "Traceback" not in doctor.output


def commands(client: redis.Redis) -> dict[tuple[str, ...], int]:
    """Each command and subcommand that needs a permission, and the smallest number of its words."""
    connection = client.connection_pool.get_connection()
    connection.send_command("COMMAND")
    found: dict[tuple[str, ...], int] = {}
    for command in connection.read_response():
        for name, arity, flags, *_ in command[9] or [command]:
            if "no_auth" not in flags:
                found[tuple(name.split("|"))] = abs(arity)
    client.connection_pool.release(connection)
    return found


def answer(client: redis.Redis, *words: str) -> str:
    try:
        return str(client.execute_command(*words))
    except redis.RedisError as error:
        return f"{type(error).__name__} {error}"


def test_redis_7_0_knows_each_command_of_the_rules(urls: Servers) -> None:
    """It refuses the whole line otherwise."""
    allowed = [word[1:] for word in documented() if word.startswith("+")]
    with redis.Redis.from_url(urls.admin, decode_responses=True, protocol=3) as client:
        newer = {}
        for name in allowed:
            command, _, subcommand = name.partition("|")
            facts = client.execute_command("COMMAND DOCS", command)[command]
            facts = facts["subcommands"][name] if subcommand else facts
            if tuple(map(int, facts["since"].split("."))) > (7, 0, 0):
                newer[name] = facts["since"]
    assert len(allowed) > 30 and newer == {}


def test_that_user_may_do_nothing_else(urls: Servers) -> None:
    allowed = {tuple(word[1:].split("|")) for word in documented() if word.startswith("+")}
    with redis.Redis.from_url(urls.admin, decode_responses=True, protocol=2) as client:
        known = commands(client)
    assert allowed <= known.keys() and len(known) > 200
    with redis.Redis.from_url(urls.user, decode_responses=True, protocol=2) as client:
        for name, words in known.items():
            if name not in allowed:
                reply = answer(client, *name, *["x"] * (words - len(name)))
                # MODULE and DEBUG are off for each user.
                assert "has no permissions to run" in reply or "command not allowed" in reply, (name, reply)
        for line in (
            ["FLUSHALL"],
            ["CONFIG", "GET", "requirepass"],
            ["KEYS", "*"],
            ["SCRIPT", "FLUSH"],
            ["ACL", "LIST"],
        ):
            assert "has no permissions to run" in answer(client, *line), line


@pytest.mark.parametrize(
    "words",
    [
        ["SMEMBERS", "other:stages"],
        ["HGETALL", "other:tasks:work"],
        ["XRANGE", f"{PREFIX}:events:_jobs", "-", "+"],
        ["XADD", f"{PREFIX}:commands:node-a", "*", "m", "{}"],
        ["DEL", f"{PREFIX}:orchestrator:leader"],
        ["DEL", f"{PREFIX}:housekeeping:leader"],
        ["HGET", f"{PREFIX}:rate:someone", "x"],
        ["DEL", f"{PREFIX}:marker"],
        ["EVAL", "return redis.call('DEL', KEYS[1])", "1", f"{PREFIX}:marker"],
        ["EVAL", "return redis.call('FLUSHALL')", "0"],
    ],
    ids=" ".join,
)
def test_that_user_reaches_no_other_key(urls: Servers, words: list[str]) -> None:
    with redis.Redis.from_url(urls.user, decode_responses=True) as client:
        reply = answer(client, *words)
        assert "No permissions to access a key" in reply or "ACL failure" in reply, reply
