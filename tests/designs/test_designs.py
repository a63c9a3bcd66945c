"""Each row of the first designs points at something that exists, and each row of the ADR is pointed at."""

import pytest

from tests.designs import d000, d001, d002, d003, d004
from tests.designs.pointers import adr_rows, problem

TABLES = {"000": d000.ROWS, "001": d001.ROWS, "002": d002.ROWS, "003": d003.ROWS, "004": d004.ROWS}


@pytest.mark.parametrize("design", TABLES)
def test_each_row_points_at_what_exists(design: str) -> None:
    wrong = {what: why for what, pointer in TABLES[design].items() if (why := problem(pointer))}
    assert wrong == {}


def test_each_row_of_the_adr_belongs_to_a_row_of_a_design() -> None:
    pointed = {pointer.removeprefix("adr:") for rows in TABLES.values() for pointer in rows.values()}
    assert adr_rows() - pointed == set()


@pytest.mark.parametrize(
    "pointer",
    [
        "adr:no-such-row",
        "metric:dalston_no_such_metric",
        "alert:DalstonNoSuchAlert",
        "log:no such event",
        "api/test_queue::no_such_test",
        "api/no_such_module::the_owner_reads_it",
        "words",
        "",
    ],
)
def test_a_pointer_that_leads_nowhere_is_found(pointer: str) -> None:
    assert problem(pointer) != ""
