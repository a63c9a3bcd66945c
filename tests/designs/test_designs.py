"""Each row of the first designs points at something that exists, and each row of the ADR is pointed at."""

import re

import pytest

from dalston_queue.alerts.page import default_of
from dalston_queue.alerts.table import BY_NAME
from dalston_queue.metrics.declare import DECLARED
from tests.designs import d000, d001, d002, d003, d004
from tests.designs.pointers import adr_rows, problem

TABLES = {"000": d000.ROWS, "001": d001.ROWS, "002": d002.ROWS, "003": d003.ROWS, "004": d004.ROWS}


@pytest.mark.parametrize("design", TABLES)
def test_each_row_points_at_what_exists(design: str) -> None:
    wrong = {what: why for what, pointer in TABLES[design].items() if (why := problem(pointer))}
    assert wrong == {}


def test_each_row_of_the_adr_belongs_to_a_row_of_a_design() -> None:
    all_pointers = (pointer for rows in TABLES.values() for row in rows.values() for pointer in row.split(" + "))
    pointed = {pointer.removeprefix("adr:") for pointer in all_pointers}
    assert adr_rows() - pointed == set()


OUR_LABELS = {
    "worker_id": "engine",  # a slot, of which there is a bounded number: an id is new with each start
    ("worker_failures_total", "reason"): "kind",
}
"""What we call a label of the designs, by its name or by its metric and name."""


@pytest.mark.parametrize("design", TABLES)
def test_each_metric_has_the_labels_of_its_row(design: str) -> None:
    """Where a row of the ADR does not say that they differ."""
    absent = []
    for what, pointers in TABLES[design].items():
        found, ours = re.fullmatch(r"(\w+)\{([\w,]+)\}", what), re.findall(r"metric:(\w+)", pointers)
        if found and ours and "adr:" not in pointers:
            has = {label for name in ours for label in DECLARED[name].labels}
            wanted = [OUR_LABELS.get((found[1], each), OUR_LABELS.get(each, each)) for each in found[2].split(",")]
            absent += [(what, label) for label in wanted if label not in has]
    assert absent == []


NUMBERS = {
    "DalstonNoActiveWorkers": (1, 120),
    "DalstonHighPriorityQueueDeep": (1000, 0),
    "DalstonFailureRateHigh": (0.25, 0),
    "DalstonDeadLettersGrow": (10, 0),
    "DalstonWorkersBusy": (0.9, 600),
    "DalstonLowPriorityWaits": (1500, 0),
    "DalstonQueueDeep": (5000, 0),
    "DalstonHighPriorityWaits": (60, 0),
    "DalstonQueueAgeHigh": (600, 0),
    "DalstonRetriesHigh": (0.15, 300),
    "DalstonBreakersOpen": (5, 0),
    "DalstonWorkersUnhealthy": (0.1, 60),
    "DalstonProbesFail": (10, 0),
    "DalstonRecoveries": (1, 0),
    "DalstonDeadLettersOfOneCause": (50, 0),
    "DalstonDeadLettersRetriable": (100, 0),
}
"""Threshold and seconds of the alerts that 001 and 002 name; the seconds are ours where they name none."""


def test_alerts_have_the_numbers_of_the_designs() -> None:
    assert {name: (default_of(BY_NAME[name].threshold), default_of(BY_NAME[name].for_s)) for name in NUMBERS} == NUMBERS


@pytest.mark.parametrize(
    "pointer",
    [
        "adr:no-such-row",
        "metric:dalston_no_such_metric",
        "alert:DalstonNoSuchAlert",
        "log:no such event",
        "api/test_queue::no_such_test",
        "api/no_such_module::the_owner_reads_it",
        "api/tasks/test_read::the_owner_reads_it + api/test_queue::no_such_test",
        "setting:DALSTON_SCAN_INTERVAL_S=61",
        "setting:DALSTON_SCAN_INTERVAL_S",
        "setting:DALSTON_NO_SUCH=1",
        "route:GET /no_such_route",
        "route:GET",
        "field:TaskOut.progress,no_such_field",
        "field:NoSuchSchema.task_id",
        "metric:dalston_queue_depth{no_such_label}",
        "metric:",
        "what:ever",
        "words",
        "",
    ],
)
def test_a_pointer_that_leads_nowhere_is_found(pointer: str) -> None:
    assert problem(pointer) != ""
