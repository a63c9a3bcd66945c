"""Values that are nested too deeply are recognised, however deep they are."""

from typing import Any

import pytest

from dalston_queue.broker.protocol.validate import too_deep


def nested(levels: int) -> Any:
    value: Any = "core"
    for level in range(levels):
        value = [value, 1] if level % 2 else {"in": value}
    return value


@pytest.mark.parametrize(("levels", "expected"), [(0, False), (1, False), (64, False), (65, True), (100_000, True)])
def test_the_limit_is_the_last_depth_that_is_allowed(levels: int, expected: bool) -> None:
    assert too_deep(nested(levels)) is expected


def test_an_empty_list_is_a_level_too() -> None:
    assert too_deep([[]], limit=1)
    assert not too_deep([[]], limit=2)


def test_a_value_that_contains_itself_is_too_deep_and_ends() -> None:
    itself: list[Any] = []
    itself += [itself, itself]
    assert too_deep(itself)
