"""pocketsphinx, the last resort: poor text, but its wheel has its model, and it gives times of words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pocketsphinx import Decoder

from engines.audio.samples import RATE, Samples
from engines.audio.speech import Span, Window
from engines.audio.sphinx import Hearing, decoded_words

from .recogniser import Heard, Word

PHRASE_S, PAUSE_S = 10.0, 0.25  # it knows no sentences: phrases end at a pause, or when they get long


class Sphinx:
    name = "pocketsphinx-en"
    languages = ("en",)
    longest_s = 20.0

    def __init__(self) -> None:
        self._decoder = Decoder(samprate=float(RATE), loglevel="FATAL", bestpath=True)
        self._hearing = Hearing(self._decoder)

    def recognise(
        self,
        samples: Samples,
        windows: Sequence[Window],
        language: str | None,  # noqa: ARG002 (it has one)
        *,
        words: bool,  # noqa: ARG002 (it always gives them)
        tick: Callable[[], None],
    ) -> Iterator[Heard]:
        self._hearing.start_anew()
        for window in windows:
            for phrase in phrases(self._words(window, samples, tick)):
                span = Span(phrase[0].start, phrase[-1].end)
                text = " ".join(word.text for word in phrase)
                yield Heard(Window(span.start, span.end, (span,)), text, None, tuple(phrase))

    def _words(self, window: Window, samples: Samples, tick: Callable[[], None]) -> list[Word]:
        # Its probabilities of words are all 1.0 here: no confidence is better than that one.
        return [
            Word(text, window.start + start, window.start + end, None)
            for text, start, end in decoded_words(self._decoder, window.cut(samples), tick)
        ]


def phrases(words: Sequence[Word]) -> list[list[Word]]:
    """Words in groups that are shown as one line."""
    groups: list[list[Word]] = []
    for word in words:
        last = groups[-1] if groups else []
        if last and word.start - last[-1].end < PAUSE_S and word.end - last[0].start <= PHRASE_S:
            last.append(word)
        else:
            groups.append([word])
    return groups
