"""The checker of old words finds them in prose, names and either case, and passes the words that replaced them."""

from __future__ import annotations

import pytest

from tests.tools.words import old_words


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("# The engine hands back its tasks.", "hands back"),
        ("def give_back(tokens):", "give_back"),
        ("log.info('Buried %s', task)", "Buried"),
        ("first line\nits place in line", "place in line"),
        ("MOST_BYTES = 10", "MOST_BYTES"),
        ("a task that a foreign hand wrote", "foreign hand"),
    ],
)
def test_an_old_word_is_found_with_its_line(text: str, word: str) -> None:
    found = {(line, each) for line, each, _ in old_words(text)}
    assert (text.count("\n") + 1, word) in found


def test_the_words_of_the_field_pass() -> None:
    assert (
        old_words(
            "The engine releases the task; a dead letter is replayed. MAX_BYTES. In line with the design, mostly."
        )
        == []
    )
