"""Figures: what they draw is written in words, an unknown value is a gap, and a name from outside is text."""

from __future__ import annotations

from dalston_queue.dashboard.parts.figures import Bar, Line, bars, lines, percent, plain


def test_a_figure_says_in_words_what_it_draws() -> None:
    svg = lines("Tasks a minute", (Line("completed", (0, 4, 2)), Line("failed", (0, 0, 1), "bad")))
    title = "Tasks a minute, the last hour: completed now 2, lowest 0, highest 4; failed now 1, lowest 0, highest 1"
    assert f"<title>{title}</title>" in svg
    assert svg.count("<path") == 2
    assert "highest 4" in svg
    assert '<span class="key one">completed <strong>2</strong></span>' in svg


def test_a_gap_is_not_drawn_as_zero_and_a_lone_minute_is_a_dash() -> None:
    svg = lines("x", (Line("a", (1, 2, None, 3)),))
    assert svg.count("M0 ") == 1
    assert svg.count("M") == 2
    assert "h1" in svg


def test_what_is_old_is_not_shown_as_now() -> None:
    assert "<strong>–</strong>" in lines("x", (Line("a", (5, None, None, None, None, None)),))
    assert "<strong>5</strong>" in lines("x", (Line("a", (5, None, None)),))


def test_without_a_value_there_is_no_figure() -> None:
    assert lines("x", ()) == lines("x", (Line("a", (None, None)),)) == ""
    assert bars("x", (), "tasks") == bars("x", (Bar("a", 0),), "tasks") == ""


def test_a_share_is_comparable_and_its_threshold_is_drawn_where_it_fits() -> None:
    full = lines("Use", (Line("slots", (0.5, 0.5)),), percent, top=1.0, threshold=0.9)
    assert "M0 36L300 36" in full
    assert 'class="threshold" d="M0 9.6H300"' in full
    assert "alert above 90 %" in full
    low = lines("Rate", (Line("failed", (0.01,)),), percent, threshold=0.25)
    assert "threshold" not in low.replace("alert above", "")
    assert "alert above 25 %" in low


def test_bars_are_as_long_as_their_share_of_the_highest() -> None:
    html = bars("Retries", (Bar("timeout", 8), Bar("error", 2)), "retries")
    assert '<rect width="100%"' in html
    assert '<rect width="25%"' in html
    assert 'aria-label="Retries: retries"' in html


def test_names_are_escaped() -> None:
    evil = "<script>alert(1)</script>"
    assert "<script" not in lines(evil, (Line(evil, (1,), "one"),)) + bars(evil, (Bar(evil, 1),), evil)


def test_numbers_are_short() -> None:
    assert [plain(each) for each in (0, 3, 3.14159, 12.7, 1234)] == ["0", "3", "3.1", "13", "1234"]
    assert percent(0.256) == "26 %"
