"""`./dev up` leaves nothing behind, however it ends, and the next one works."""

import os
import random
import re
import signal
import socket
import time
from collections.abc import Callable
from functools import partial

import psycopg
import pytest
import redis

from dalston_site.embedded.server import Server
from dalston_site.up.children import MAX_RESTARTS, STOP_TIMEOUT_S, Stage
from dalston_site.up.services import lan_addresses
from tests.e2e.conftest import Up, answers, command_of
from tests.support import Spawned, wait_until

AFTER_A_KILL_S = 30
"""The kernel signals the children, which need a moment; a supervisor tries for 5 s to reach a Redis that is gone."""


def stop(up: Spawned, signum: signal.Signals) -> None:
    assert up.stop(signum, timeout=10) == 0, up.output


def test_ctrl_c_and_sigterm_stop_everything_and_the_login_survives(up: Up) -> None:
    first = up.ready("--orchestrators", "2", "--nodes", "2")
    token = up.env["DALSTON_TOKEN"]
    password = (up.data / "admin-password").read_text()
    names = {text.split("|")[0].strip() for text in first.output.splitlines() if "|" in text}
    assert {"orchestrator-1", "orchestrator-2", "node-1", "node-2"} <= names
    assert answers(up)
    assert not any(answers(up, host) for host in lan_addresses()), "loopback only, unless asked for"
    stop(first, signal.SIGINT)
    up.nothing_is_left()
    assert not (up.data / "dev.env").exists()

    second = up.ready("--lan")
    assert all(answers(up, host) for host in lan_addresses())
    assert up.env["DALSTON_TOKEN"] == token
    assert (up.data / "admin-password").read_text() == password
    stop(second, signal.SIGTERM)
    up.nothing_is_left()


def test_after_a_kill_9_nothing_is_left_and_the_next_up_works(up: Up) -> None:
    first = up.ready()
    first.send(signal.SIGKILL)
    first.wait()
    up.nothing_is_left(within=AFTER_A_KILL_S)

    second = up.ready()
    supervisor = up.process("runsupervisor")
    supervisor.suspend()  # a stopped process takes no notice of its parent's death
    second.send(signal.SIGKILL)
    second.wait()

    third = up.ready()
    assert "Cleaning up after a ./dev up that was killed" in third.output
    assert not supervisor.is_running()
    up.leave(third)


def test_a_second_up_on_the_same_data_says_who_holds_it(up: Up) -> None:
    first = up.ready()
    second = up.start(port=up.port)
    assert second.wait() == 1
    assert f"is in use by the ./dev up with pid {first.pid}, since " in second.output
    assert f"http://127.0.0.1:{up.port}" in second.output
    up.leave(first)


def test_a_second_ctrl_c_does_not_wait(up: Up) -> None:
    first = up.ready()
    supervisor = up.process("runsupervisor")
    supervisor.suspend()  # it can't stop in good order now
    first.send(signal.SIGINT)
    first.wait_for("stopping")
    began = time.monotonic()
    first.send(signal.SIGINT)
    assert first.wait() == 0
    assert time.monotonic() - began < STOP_TIMEOUT_S[Stage.NODE]
    up.nothing_is_left()


def test_a_taken_port_is_refused_before_anything_starts(up: Up) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        refused = up.start(port=taken)
        assert refused.wait() == 1
    assert f"Port {taken} on 127.0.0.1 can't be used (Address already in use)" in refused.output
    assert "Starting" not in refused.output


def test_a_process_that_cannot_stay_ends_it_all(up: Up) -> None:
    first = up.ready()
    restarted = "web was killed by SIGKILL. Starting"
    while first.output.count(restarted) < MAX_RESTARTS:
        already = first.output.count(restarted)
        up.process("dalston_site.web").kill()
        wait_until(partial(lambda before: first.output.count(restarted) > before, already))
    up.process("dalston_site.web").kill()
    assert first.wait() == 1
    assert "Error: web was killed by SIGKILL. Its last lines:" in first.output
    up.nothing_is_left()


def test_a_process_that_cannot_start_is_named_and_all_stop(up: Up) -> None:
    failed = up.start(env={"DALSTON_MAX_DELIVERIES": "none"})
    assert failed.wait() == 1
    assert "DALSTON_MAX_DELIVERIES is 'none'" in failed.output
    assert re.search(r"Error: (setup|node-1) ended \(exit 1\). Its last lines:", failed.output)
    up.nothing_is_left()


def test_servers_of_ones_own_are_used_and_left_alone(up: Up, valkey_server: Callable[..., Server]) -> None:
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as postgres:
        postgres.execute("DROP DATABASE IF EXISTS mine")
        postgres.execute("CREATE DATABASE mine")
    mine = {
        "DATABASE_URL": os.environ["DATABASE_URL"].rpartition("/")[0] + "/mine",
        "REDIS_URL": valkey_server().url,
    }
    first = up.ready(env=mine)
    assert {name: up.env[name] for name in mine} == mine
    assert not any("valkey" in " ".join(command_of(it)) for it in up.processes())
    stop(first, signal.SIGTERM)
    up.nothing_is_left()
    with psycopg.connect(mine["DATABASE_URL"]) as postgres, redis.Redis.from_url(mine["REDIS_URL"]) as server:
        assert postgres.execute("SELECT count(*) FROM auth_user").fetchone() == (1,)
        assert server.ping()


def interrupt_at_random_moments(up: Up, moments: int, seed: int) -> None:
    """The seed makes the moments the same in each run; they span a whole start."""
    chance = random.Random(seed)
    for number in range(moments):
        one = up.start()
        time.sleep(chance.uniform(0.0, 6.0))  # the moment is the test
        signum = chance.choice([signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
        one.send(signum)
        one.wait()
        up.nothing_is_left(within=AFTER_A_KILL_S if signum is signal.SIGKILL else 0.5)  # the others are waited for
        assert not (up.data / "dev.env").exists() or signum is signal.SIGKILL, f"moment {number}"
    last = up.ready()
    with psycopg.connect(up.env["DATABASE_URL"]) as connection:
        assert connection.execute("SELECT count(*) FROM auth_user WHERE username = 'admin'").fetchone() == (1,)
    stop(last, signal.SIGTERM)
    up.nothing_is_left()


def test_up_can_be_interrupted_at_any_moment(fresh: Up) -> None:
    interrupt_at_random_moments(fresh, moments=4, seed=4)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_up_can_be_interrupted_twenty_times_in_a_row(fresh: Up) -> None:
    interrupt_at_random_moments(fresh, moments=20, seed=20)
