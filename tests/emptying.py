"""Restores the tables between two tests to the state after the migrations, in a few milliseconds.

Django's own TRUNCATE of all tables makes 135 new files and writes content types and permissions again, which takes a
tenth of a second, and the rows of migrations would be gone.
"""

from collections.abc import Callable

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

KEPT = {"django_content_type", "auth_permission"}  # no test writes there
LARGE_BYTES = 4_000_000  # deleted rows stay in the files, and the planner would count them


def remember() -> None:
    """Copies the rows of the migrations; to be called once, on the new database."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA first")
        for name in _with_rows(cursor, _tables()):
            cursor.execute(f"CREATE TABLE first.{name} AS TABLE {name}")
        for name in ("dalston_operator_action", "dalston_audit_entry"):  # in production their TRUNCATE is refused
            cursor.execute(f"ALTER TABLE {name} DISABLE TRIGGER audit_keep_all")


def restore(truncate: Callable[[], None]) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        tables = _tables()
        if _can_delete(cursor, tables):
            _delete(cursor, tables)
        else:
            truncate()
        cursor.execute("SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname = 'first'")
        for (name,) in cursor.fetchall():
            cursor.execute(f"INSERT INTO {name} SELECT * FROM first.{name}")


def _tables() -> list[str]:
    found = connection.introspection.django_table_names(only_existing=True, include_views=False)
    return [connection.ops.quote_name(name) for name in sorted(set(found) - KEPT)]


def _with_rows(cursor: CursorWrapper, tables: list[str]) -> list[str]:
    cursor.execute(" UNION ALL ".join(f"SELECT '{name}' WHERE EXISTS (SELECT FROM {name})" for name in tables))
    return [name for (name,) in cursor.fetchall()]


def _can_delete(cursor: CursorWrapper, tables: list[str]) -> bool:
    """False after a test with many rows, or on a server where triggers can't be switched off."""
    sizes = " + ".join(f"pg_relation_size('{name}')" for name in tables)
    cursor.execute(f"SELECT current_setting('is_superuser') = 'on' AND {sizes} < {LARGE_BYTES}")
    return bool(cursor.fetchone()[0])


def _delete(cursor: CursorWrapper, tables: list[str]) -> None:
    # Waits for writers, as TRUNCATE does, so that no row comes after the deletion. Readers go on.
    cursor.execute(f"LOCK TABLE {', '.join(tables)} IN EXCLUSIVE MODE")
    cursor.execute("SET LOCAL session_replication_role = replica")  # no foreign keys to obey, and no audit triggers
    for name in _with_rows(cursor, tables):
        cursor.execute(f"DELETE FROM {name}")
    cursor.execute("SET LOCAL session_replication_role = DEFAULT")
