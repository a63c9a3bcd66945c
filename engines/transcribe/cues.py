"""Cues: the sentences of a window with estimated times, for a model that gives no times of words. Pure.

Speech runs at about the same speed within some seconds, so a sentence ends where its share of the characters ends in
the speech; and as people pause between sentences, at the nearest pause.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from engines.audio.speech import Span

SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
LONGEST = 90  # characters of a cue, about six seconds; a longer sentence is cut at its commas, else between words
SNAP_S = 1.0  # how far the nearest pause may be


@dataclass(frozen=True, slots=True)
class Cue:
    start: float
    end: float
    text: str


def cues(text: str, spans: Sequence[Span]) -> list[Cue]:
    """`spans` of speech in the window: at least one."""
    sentences = [part for sentence in SENTENCE_END.split(text.strip()) if sentence for part in parts(sentence)]
    total = sum(len(sentence) for sentence in sentences)
    found: list[Cue] = []
    start, passed = spans[0].start, 0
    for number, sentence in enumerate(sentences):
        passed += len(sentence)
        if number == len(sentences) - 1:
            end, following = spans[-1].end, spans[-1].end
        else:
            end, following = _boundary(_moment(passed / total, spans), spans)
        end = max(start, end)
        found.append(Cue(start, end, sentence))
        start = max(end, following)
    return found


def parts(sentence: str) -> list[str]:
    """The sentence in parts of at most LONGEST characters, of about the same length."""
    if len(sentence) <= LONGEST:
        return [sentence]
    middle = len(sentence) / 2
    spaces = [found.start() for found in re.finditer(" ", sentence)]
    if not spaces:
        return [sentence]  # one endless word
    commas = [space for space in spaces if sentence[space - 1] in ",;:" and 0.2 < space / len(sentence) < 0.8]
    cut = min(commas or spaces, key=lambda space: abs(space - middle))
    return [*parts(sentence[:cut]), *parts(sentence[cut + 1 :])]


def _moment(fraction: float, spans: Sequence[Span]) -> float:
    """When this fraction of the speech is over."""
    left = fraction * sum(span.length for span in spans)
    for span in spans:
        if left <= span.length:
            return span.start + left
        left -= span.length
    return spans[-1].end


def _boundary(moment: float, spans: Sequence[Span]) -> tuple[float, float]:
    """The pause around, or near, this moment: its start and end; the moment itself if no pause is near."""
    pauses = [(before.end, after.start) for before, after in itertools.pairwise(spans)]
    nearest = min(pauses, key=lambda pause: abs((pause[0] + pause[1]) / 2 - moment), default=None)
    if nearest is None or min(abs(nearest[0] - moment), abs(nearest[1] - moment)) > SNAP_S:
        return moment, moment
    return nearest
