"""The words that a decoder of pocketsphinx finds in samples, with their times."""

from __future__ import annotations

import re
from collections.abc import Callable

from pocketsphinx import Decoder

from .samples import RATE, Samples

FRAMES_PER_S = 100
PIECE = RATE // 4  # samples between two calls of `tick`
_VARIANT = re.compile(r"\(\d+\)$")  # of a word's pronunciation, as in "the(2)"
_NO_WORD = ("<", "[", "(", "+")  # silence and noise


class Hearing:
    """A decoder adapts to what it hears. Without a new start a result would depend on the recordings before it."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder, self._unadapted = decoder, decoder.get_cmn(False)

    def start_anew(self) -> None:
        self._decoder.set_cmn(self._unadapted)


def decoded_words(decoder: Decoder, samples: Samples, tick: Callable[[], None]) -> list[tuple[str, float, float]]:
    """Each word with its start and end, in seconds of the samples. `tick` may raise: the decoder stays usable."""
    decoder.start_utt()
    try:
        for start in range(0, len(samples), PIECE):
            tick()
            decoder.process_raw(samples[start : start + PIECE].tobytes(), no_search=False, full_utt=False)
    finally:
        decoder.end_utt()  # also after a cancel: the next task starts anew
    return [
        (_VARIANT.sub("", segment.word), segment.start_frame / FRAMES_PER_S, (segment.end_frame + 1) / FRAMES_PER_S)
        for segment in decoder.seg() or ()
        if not segment.word.startswith(_NO_WORD)
    ]
