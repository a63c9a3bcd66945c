"""The align engine: times of the words of a transcribed chunk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from engines.align.alignment import Aligner
from engines.align.words import with_times
from engines.audio.samples import RATE, Samples, read
from engines.sdk import Engine, Task

PAUSE_S = 0.15  # segments without such a pause between them are aligned together: their border is an estimate
LONGEST_S = 40.0
MARGIN_S = 0.2


class Align(Engine):
    def load(self) -> None:
        self._aligner = Aligner()

    def run(self, task: Task) -> Any:
        wanted = task.parameters
        heard = task.inputs[wanted["transcribe"]]
        if heard["word_times"] != "none":
            return heard  # its model gave the times
        samples, offset = read(task.artifact(wanted["audio"])), float(wanted.get("offset", 0.0))
        duration = max(1.0, len(samples) / RATE)
        segments: list[dict[str, Any]] = []
        self._aligner.start_anew()
        for group in groups(heard["segments"]):
            segments += self._aligned(group, samples, offset, task)
            end = group[-1]["end"] - offset
            task.progress(end / duration, f"{end:.0f} of {duration:.0f} s of audio")
        return {**heard, "segments": segments, "word_times": "aligned"}

    def _aligned(
        self, group: Sequence[dict[str, Any]], samples: Samples, offset: float, task: Task
    ) -> list[dict[str, Any]]:
        start = max(0.0, group[0]["start"] - offset - MARGIN_S)
        part = samples[int(start * RATE) : int((group[-1]["end"] - offset + MARGIN_S) * RATE)]
        words = [segment["text"].split() for segment in group]
        times = self._aligner.align(part, [word for some in words for word in some], task.check)
        moved = [None if each is None else (offset + start + each[0], offset + start + each[1]) for each in times]
        timed = with_times([word for some in words for word in some], moved, group[0]["start"], group[-1]["end"])
        found = []
        for segment, some in zip(group, words, strict=True):
            own, timed = timed[: len(some)], timed[len(some) :]
            edges = {"start": own[0]["start"], "end": own[-1]["end"]} if own else {}
            found.append({**segment, **edges, "words": own or None})
        return found


def groups(segments: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Segments that follow each other without a pause."""
    found: list[list[dict[str, Any]]] = []
    for segment in segments:
        last = found[-1] if found else None
        follows = last and segment["start"] - last[-1]["end"] < PAUSE_S
        if last and follows and segment["end"] - last[0]["start"] <= LONGEST_S:
            last.append(segment)
        else:
            found.append([segment])
    return found


if __name__ == "__main__":
    Align().serve()
