"""Inserts of a million rows: no foreign keys are checked, indexes are made afterwards. Needs Django to be set up."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connection


@contextmanager
def fast_inserts() -> Iterator[None]:
    """Meanwhile the tables of jobs and tasks have no indexes but those of constraints."""
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")  # no check of foreign keys
        indexes = _indexes(cursor)
        for name in indexes:
            cursor.execute(f'DROP INDEX "{name}"')
        yield
        for definition in indexes.values():  # much faster than a million insertions
            cursor.execute(definition)
        cursor.execute("SET session_replication_role = origin")
        cursor.execute("VACUUM ANALYZE")


def _indexes(cursor: Any) -> dict[str, str]:
    """Definitions of the large tables' indexes, by name, except those of constraints."""
    cursor.execute(
        """
        SELECT indexname, indexdef FROM pg_indexes
        WHERE tablename IN ('dalston_job', 'dalston_task')
          AND indexname NOT IN (SELECT conname FROM pg_constraint)"""
    )
    return dict(cursor.fetchall())
