"""U+0000 in JSON text, which Postgres refuses, and text that only resembles its escape."""

import json

import pytest

from dalston_queue.jobs.submit.storable import holds_nul, without_nul

NUL, BACKSLASH = "\0", "\\"


@pytest.mark.parametrize("text", [NUL, f"a{NUL}b", f"{BACKSLASH}{NUL}", f"{BACKSLASH * 2}{NUL}{NUL}"])
def test_the_character_is_found_and_replaced(text: str) -> None:
    assert holds_nul(json.dumps([text]))
    assert json.loads(without_nul(json.dumps([text]))) == [text.replace(NUL, "\ufffd")]


@pytest.mark.parametrize("text", ["", "u0000", f"C:{BACKSLASH}u0000dir", f"{BACKSLASH * 2}u0000"])
def test_text_that_resembles_the_escape_stays_as_it_is(text: str) -> None:
    assert not holds_nul(json.dumps([text]))
    assert json.loads(without_nul(json.dumps([text]))) == [text]
