"""Forced alignment by pocketsphinx: the times of known words in a few seconds of speech."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pocketsphinx import Decoder

from engines.audio.samples import RATE, Samples
from engines.audio.sphinx import Hearing, decoded_words

from .words import Times, plain


class Aligner:
    def __init__(self) -> None:
        self._decoder = Decoder(samprate=float(RATE), loglevel="FATAL", lm=None)
        self._hearing = Hearing(self._decoder)

    def start_anew(self) -> None:
        """Before the first seconds of a chunk."""
        self._hearing.start_anew()

    def align(self, samples: Samples, words: Sequence[str], tick: Callable[[], None]) -> list[Times | None]:
        """Seconds in the samples for each word; None for one that the dictionary lacks, and for all if the text does
        not fit the sound."""
        known = [number for number, word in enumerate(words) if self._knows(plain(word))]
        times: list[Times | None] = [None] * len(words)
        if not known:
            return times
        expected = [plain(words[number]) for number in known]
        found = self._aligned(samples, " ".join(expected), tick)
        if [word for word, *_ in found] == expected:
            for number, (_, start, end) in zip(known, found, strict=True):
                times[number] = (start, end)
        return times

    def _knows(self, word: str) -> bool:
        return bool(word) and self._decoder.lookup_word(word) is not None

    def _aligned(self, samples: Samples, text: str, tick: Callable[[], None]) -> list[tuple[str, float, float]]:
        self._decoder.set_align_text(text)
        return decoded_words(self._decoder, samples, tick)
