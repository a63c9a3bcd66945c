"""Private Postgres and Valkey servers: safe to interrupt, with a password, ended with their parent."""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import psycopg
import pytest
import redis
from django.db import connection as django_connection

from dalston_site.embedded.binaries import ServerError
from dalston_site.embedded.binaries import valkey_server as valkey_binary
from dalston_site.embedded.postgres import Postgres
from dalston_site.embedded.server import Server, free_port
from dalston_site.embedded.valkey import Valkey
from tests.conftest import ROOT
from tests.support import Spawned, wait_until


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[Server]:
    server = Server(Postgres(tmp_path / "postgres", fast=True), tmp_path)
    yield server
    server.stop()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_postgres_asks_for_its_password_and_listens_on_loopback_only(postgres: Server) -> None:
    with psycopg.connect(postgres.url) as connection:
        row = connection.execute("SELECT current_user, current_database(), inet_server_addr()").fetchone()
    assert [str(value) for value in row or ()] == ["dalston", "dalston", "127.0.0.1"]
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(postgres.url.replace("dalston:", "dalston:x"))


def test_postgres_keeps_its_data_over_a_restart_in_a_path_longer_than_any_socket(tmp_path: Path) -> None:
    recipe = Postgres(tmp_path / ("long" * 40) / "postgres", fast=True)
    server = Server(recipe, tmp_path)
    with psycopg.connect(server.url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    server.stop()
    again = Server(recipe, tmp_path)
    try:
        with psycopg.connect(again.url) as connection:
            assert connection.execute("SELECT answer FROM kept").fetchone() == (42,)
    finally:
        again.stop()


@pytest.mark.parametrize("delay", [0.02, 0.1, 0.3, 0.5])
def test_an_interrupted_initdb_leaves_no_half_made_data(tmp_path: Path, delay: float) -> None:
    program = "import sys; from pathlib import Path; from dalston_site.embedded.postgres import Postgres\n"
    program += "print('go', flush=True); Postgres(Path(sys.argv[1]), fast=True).prepare()"
    folder = tmp_path / "postgres"
    process = subprocess.Popen([sys.executable, "-c", program, str(folder)], cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        process.wait(delay)
    except subprocess.TimeoutExpired:
        process.kill()
    process.wait()
    process.stdout.close()
    server = Server(Postgres(folder, fast=True), tmp_path)
    server.stop()
    Postgres(folder).prepare()  # deletes what the interrupted one left
    assert sorted(path.name for path in folder.iterdir()) == ["data", "password"]


def test_secrets_are_readable_by_their_owner_only_and_on_no_command_line(tmp_path: Path, postgres: Server) -> None:
    valkey = Server(Valkey(tmp_path / "valkey"), tmp_path)
    try:
        for server in (valkey, postgres):
            password = server.url.split("@")[0].rpartition(":")[2]
            assert password not in " ".join(psutil.Process(server.pid).cmdline())
        for path in ("valkey/valkey.conf", "valkey/password", "postgres/password"):
            assert mode(tmp_path / path) == 0o600, path
    finally:
        valkey.stop()


def test_valkey_writes_every_change_to_disk_and_never_evicts(valkey_server: Callable[..., Server]) -> None:
    with redis.Redis.from_url(valkey_server().url, decode_responses=True) as client:
        assert client.config_get("appendonly", "maxmemory-policy") == {
            "appendonly": "yes",
            "maxmemory-policy": "noeviction",
        }


def test_valkey_needs_its_password(valkey_server: Callable[..., Server]) -> None:
    address = valkey_server().url.partition("@")[2]
    with redis.Redis.from_url(f"redis://{address}") as client, pytest.raises(redis.AuthenticationError):
        client.ping()


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match=r"valkey did not start(?s:.*)no-such-directive"):
        Server(Valkey(tmp_path / "valkey", {"no-such-directive": "yes"}), tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux signals the death of a parent")
def test_the_servers_end_with_a_parent_that_is_killed(tmp_path: Path, spawn: Callable[..., Spawned]) -> None:
    program = tmp_path / "parent.py"
    program.write_text(
        "import sys, time; from pathlib import Path\n"
        "from dalston_site.embedded.postgres import Postgres; from dalston_site.embedded.server import Server\n"
        "from dalston_site.embedded.valkey import Valkey\n"
        "folder = Path(sys.argv[1])\n"
        "servers = [Server(Postgres(folder / 'p', fast=True), folder), Server(Valkey(folder / 'v'), folder)]\n"
        "print('pids', *(server.pid for server in servers), flush=True); time.sleep(60)\n"
    )
    parent = spawn(str(program), str(tmp_path), env={**os.environ, "PYTHONPATH": str(ROOT)})
    parent.wait_for("\n")
    servers = [psutil.Process(int(pid)) for pid in parent.output.split()[1:]]
    family = [*servers, *(child for server in servers for child in server.children(recursive=True))]
    parent.send(signal.SIGKILL)
    parent.wait()
    wait_until(lambda: not any(map(_lives, family)), what="every server process has ended")


def _lives(process: psutil.Process) -> bool:
    """False for a zombie: its new parent may never reap it."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_free_ports_are_usable() -> None:
    assert free_port() > 1024
    assert valkey_binary().is_file()


@pytest.mark.django_db
def test_django_speaks_to_a_private_postgres() -> None:
    with django_connection.cursor() as cursor:
        cursor.execute("SHOW server_version_num")
        assert int(cursor.fetchone()[0]) >= 180000


def test_an_extra_valkey_takes_configuration_lines(valkey_server: Callable[..., Server]) -> None:
    server = valkey_server({"maxmemory": "5mb"})
    with redis.Redis.from_url(server.url, decode_responses=True) as client:
        assert client.config_get("maxmemory") == {"maxmemory": str(5 * 1024 * 1024)}
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
