"""The tests' own helpers: reserved ports, tables restored between tests, and tests that share a process."""

import socket

import pytest
from django.contrib.auth.models import Group
from django.db import connection

from dalston_queue.accounts.roles import Role
from dalston_queue.models import Project
from tests.conftest import ROOT
from tests.schedule import LONGEST_FIRST, TOGETHER, piece
from tests.support import reserve_port


def test_a_reserved_port_is_refused_to_others_and_free_for_the_servers_of_the_test() -> None:
    port = reserve_port()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))
    for _ in range(2):  # a server may be restarted
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        with socket.create_server(("127.0.0.1", port)), socket.create_connection(("127.0.0.1", port)):
            pass


def test_the_system_never_chooses_a_reserved_port() -> None:
    mine = {reserve_port() for _ in range(20)}
    assert len(mine) == 20
    others = [socket.create_server(("127.0.0.1", 0)) for _ in range(200)]
    assert not mine & {other.getsockname()[1] for other in others}
    for other in others:
        other.close()


def test_a_file_runs_in_one_process_and_so_do_files_that_share_a_browser_or_a_dalston() -> None:
    assert piece("tests/e2e/test_up.py::test_a") == piece("tests/e2e/test_up.py::test_b[a@b]") == "tests/e2e/test_up.py"
    assert piece("tests/client/test_cli.py::test_a") == piece("tests/client/test_page.py::test_b") == "client"
    assert piece("tests/browser/test_audit.py::test_a") == piece("tests/browser/test_queue.py::test_b") == "browser"
    assert piece("tests/client/test_watch.py::test_a") == "tests/client/test_watch.py"


def test_scheduled_paths_exist() -> None:
    assert [path for path in (*TOGETHER, *LONGEST_FIRST) if not any(ROOT.glob(f"{path}*"))] == []


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "rows", [10, 50_000, 1], ids=["a few rows are deleted", "many are truncated", "nothing is left"]
)
def test_tables_are_as_the_migrations_left_them(rows: int) -> None:
    assert not Project.objects.exists()
    assert set(Group.objects.values_list("name", flat=True)) == {role.value for role in Role}
    Group.objects.all().delete()
    Group.objects.create(name="a test's own")
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO dalston_project (id, name, weight, created_at)"
            " SELECT gen_random_uuid(), repeat('x', 60) || n, 1, now() FROM generate_series(1, %s) n",
            [rows],
        )
