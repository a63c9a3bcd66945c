"""The web process keeps its database connections in a pool, and survives a restart of Postgres."""

import os
import subprocess
import sys

from tests.conftest import ROOT

PROGRAM = """
import django
django.setup()
import psycopg
from django.conf import settings
from django.db import connection

def pid():
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        found = cursor.fetchone()[0]
    connection.close()  # as at the end of a request: back into the pool
    return found

before = {pid() for _ in range(20)}
options = {**settings.DATABASES["default"]}
with psycopg.connect(host=options["HOST"], port=options["PORT"], user=options["USER"], password=options["PASSWORD"],
                     dbname=options["NAME"], autocommit=True) as admin:
    admin.execute("SELECT pg_terminate_backend(pid, 5000) FROM unnest(%s) AS pid", [list(before)])
after = {pid() for _ in range(20)}
print(len(before) <= 2, before.isdisjoint(after))
connection.close_pool()
"""


def test_a_connection_is_used_again_and_a_broken_one_is_replaced() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "dalston_site.settings", "DALSTON_DB_POOL_SIZE": "2"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "True True\n", done.stderr
