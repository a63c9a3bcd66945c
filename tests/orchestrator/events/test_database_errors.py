"""Which errors of the database are transient, asked of a real one."""

import pytest
from django.db import Error, connection, transaction

from dalston_queue.database import is_transient

pytestmark = pytest.mark.django_db


def error_of(statement: str) -> Error:
    with pytest.raises(Error) as raised, transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)
    return raised.value


def raised(sqlstate: str) -> Error:
    return error_of(f"DO $$ BEGIN RAISE EXCEPTION 'x' USING ERRCODE = '{sqlstate}'; END $$")


@pytest.mark.parametrize(
    "sqlstate", ["08006", "40001", "40P01", "53200", "53300", "57P01", "57014", "55P03", "25P03", "25P04"]
)
def test_an_error_of_the_server_is_transient(sqlstate: str) -> None:
    assert is_transient(raised(sqlstate))


@pytest.mark.parametrize("sqlstate", ["22003", "22P05", "23505", "23514", "42601", "54000"])
def test_an_error_of_the_data_is_not(sqlstate: str) -> None:
    assert not is_transient(raised(sqlstate))


def test_a_result_that_postgres_cannot_store_is_not() -> None:
    assert not is_transient(error_of(r"""SELECT '"\u0000"'::jsonb ->> 0, '{"a": "\u0000"}'::jsonb"""))
