"""The board: a viewer gets what changed since its last message, and nothing else."""

from __future__ import annotations

from dalston_queue.dashboard.live.fragments import Board, Fragment, Row


def table(**rows: str) -> Fragment:
    made = tuple(Row(name, f"<tr id={name}>{text}</tr>") for name, text in rows.items())
    return Fragment("t", f"<tbody id=t>{''.join(row.html for row in made)}</tbody>", made)


def test_a_new_viewer_gets_everything() -> None:
    board = Board()
    board.update([Fragment("a", "<p id=a>1</p>"), table(x="1")])
    assert board.since(0) == ["<tbody id=t><tr id=x>1</tr></tbody>", "<p id=a>1</p>"]


def test_nothing_changed_means_nothing_sent() -> None:
    board = Board()
    for _ in range(3):
        board.update([Fragment("a", "<p id=a>1</p>"), table(x="1")])
    assert board.since(1) == []


def test_only_the_changed_row_is_sent() -> None:
    board = Board()
    board.update([table(x="1", y="1")])
    board.update([table(x="1", y="2")])
    assert board.since(1) == ["<tr id=y>2</tr>"]


def test_rows_that_come_go_or_move_send_the_table() -> None:
    board = Board()
    board.update([table(x="1")])
    for changed in (table(x="1", y="1"), table(y="1", x="1"), table(y="1")):
        before = board.version
        board.update([changed])
        assert board.since(before) == [changed.html]


def test_the_first_row_and_the_last_one_gone_send_the_table() -> None:
    board = Board()
    empty = Fragment("t", "<tbody id=t><tr>none</tr></tbody>")
    board.update([empty])
    board.update([table(x="1")])
    assert board.since(1) == [table(x="1").html]
    board.update([empty])
    assert board.since(2) == [empty.html]


def test_a_slow_viewer_catches_up_with_one_message() -> None:
    board = Board()
    board.update([Fragment("a", "<p id=a>1</p>"), table(x="1")])
    board.update([Fragment("a", "<p id=a>2</p>"), table(x="1")])
    board.update([Fragment("a", "<p id=a>3</p>"), table(x="2")])
    assert board.since(1) == ["<tr id=x>2</tr>", "<p id=a>3</p>"]
    assert board.since(3) == []
