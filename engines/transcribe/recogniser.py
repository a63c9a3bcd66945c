"""A recogniser: what the models have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from engines.audio.samples import Samples
from engines.audio.speech import Window


@dataclass(frozen=True, slots=True)
class Word:
    """A word with its time in the chunk, in seconds."""

    text: str
    start: float
    end: float
    confidence: float | None


@dataclass(frozen=True, slots=True)
class Heard:
    """The text of one window."""

    window: Window
    text: str
    confidence: float | None
    words: tuple[Word, ...] | None = None  # None: the model gives no times of words
    language: str | None = None  # that the model found; None: it has one only


class Recogniser(Protocol):
    @property
    def name(self) -> str:
        """The model's, as clients write it."""

    @property
    def languages(self) -> tuple[str, ...] | None:
        """None: any."""

    @property
    def longest_s(self) -> float:
        """Of a window, in seconds."""

    def recognise(
        self,
        samples: Samples,
        windows: Sequence[Window],
        language: str | None,
        *,
        words: bool,
        tick: Callable[[], None],
    ) -> Iterator[Heard]:
        """In the order of the windows. Calls `tick` at least once a second; it may raise."""
