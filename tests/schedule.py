"""A pytest plugin (`-p tests.schedule`): which tests run in the same process with `-n 3`.

Tests of one file run in one process, so that their fixtures start once; so do files that share a browser or a whole
Dalston. The long ones start first: started last, they would prolong the run. A test with the mark `alone` measures
time, and no other test runs meanwhile.

Pytest-xdist's own `--dist loadgroup` puts the group into the test's id, which pytest 9.2 ignores without an error.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

TOGETHER = {"tests/browser/": "browser", "tests/client/test_cli": "client", "tests/client/test_page.py": "client"}
LONGEST_FIRST = (
    "tests/e2e/",
    "tests/abuse/test_connections.py",
    "tests/browser/",
    "tests/client/",
    "tests/site/test_dev.py",
    "tests/supervisor/",
    "tests/api/workers/test_conformance.py",
    "tests/orchestrator/",
    "tests/site/",
    "tests/api/",
    "tests/dashboard/",
)


def piece(nodeid: str) -> str:
    """The unit that one process runs as a whole: a file, or several."""
    file = nodeid.partition("::")[0]
    return next((name for start, name in TOGETHER.items() if file.startswith(start)), file)


class ByFile(LoadScopeScheduling):  # type: ignore[misc]
    def _split_scope(self, nodeid: str) -> str:
        return piece(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Any:
    config.option.loadscopereorder = False  # ours: LONGEST_FIRST
    return ByFile(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=_rank)


def _rank(item: pytest.Item) -> int:
    return next((rank for rank, start in enumerate(LONGEST_FIRST) if item.nodeid.startswith(start)), len(LONGEST_FIRST))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Each test holds a lock that they share, and one that is alone holds it for itself. The gate is closed while that
    one waits: else there would always be another that has just begun. Both lie on files that exist in any checkout."""
    alone = item.get_closest_marker("alone") is not None
    with Path(__file__).open() as lock, Path(__file__).with_name("conftest.py").open() as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        fcntl.flock(lock, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        fcntl.flock(gate, fcntl.LOCK_UN)
        try:
            return (yield)
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)  # a process that was forked keeps the file open
