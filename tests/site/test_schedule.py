"""Tests that share something expensive stay in one process (tests/schedule.py)."""

from tests.conftest import ROOT
from tests.schedule import LONGEST_FIRST, TOGETHER, piece


def test_a_file_is_one_piece_and_so_are_files_that_share_a_browser_or_a_whole_dalston() -> None:
    assert piece("tests/e2e/test_up.py::test_a") == piece("tests/e2e/test_up.py::test_b[a@b]") == "tests/e2e/test_up.py"
    assert piece("tests/client/test_cli.py::test_a") == piece("tests/client/test_page.py::test_b") == "client"
    assert piece("tests/browser/test_audit.py::test_a") == piece("tests/browser/test_queue.py::test_b") == "browser"
    assert piece("tests/client/test_watch.py::test_a") == "tests/client/test_watch.py"


def test_what_is_named_there_exists() -> None:
    assert [path for path in (*TOGETHER, *LONGEST_FIRST) if not (ROOT / path).exists()] == []
