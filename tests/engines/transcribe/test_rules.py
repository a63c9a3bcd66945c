"""The pure parts of the transcribe engine: spans, windows, cues, batches."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.audio.speech import MARGIN_S, Span, pack, spans_of
from engines.sdk import Engine, Task
from engines.sdk.outcomes import Failed
from engines.sdk.testing import run_task
from engines.transcribe.batches import GpuOutOfMemoryError, in_batches
from engines.transcribe.cues import LONGEST, cues, parts

FRAME_S = 0.032


class Failing(Engine):
    def __init__(self, error: Exception) -> None:
        self.error = error

    def run(self, _task: Task) -> None:
        raise self.error


@st.composite
def some_spans(draw: st.DrawFn) -> list[Span]:
    moments = sorted(draw(st.lists(st.integers(0, 3000), min_size=2, max_size=40, unique=True)))
    return [Span(start / 10, end / 10) for start, end in zip(moments[::2], moments[1::2], strict=False)]


def test_a_short_pause_is_part_of_the_speech_and_a_click_is_none() -> None:
    speech, pause, long_pause = [0.9] * 20, [0.1] * 5, [0.1] * 12
    spans = spans_of([*pause, *speech, *pause, *speech, *long_pause, 0.9, *long_pause], FRAME_S)
    assert spans == [Span(5 * FRAME_S, 50 * FRAME_S)]
    assert spans_of([*long_pause, *speech], FRAME_S) == [Span(12 * FRAME_S, 32 * FRAME_S)]


@given(some_spans())
def test_windows_hold_all_speech_once_and_never_overlap(spans: list[Span]) -> None:
    windows = pack(spans, 25.0, 300.0)
    assert sum(span.length for window in windows for span in window.spans) == pytest.approx(
        sum(span.length for span in spans)
    )
    for window in windows:
        assert window.spans[-1].end - window.spans[0].start <= 25.0 + 1e-6
        assert 0 <= window.start <= window.spans[0].start and window.spans[-1].end <= window.end <= 300.0
        assert window.end - window.start <= 25.0 + 2 * MARGIN_S + 1e-6
    for before, after in pairwise(windows):
        assert before.spans[-1].end <= after.start + 1e-9


WORDS = st.lists(st.text("abc,.!", min_size=1, max_size=12), min_size=1, max_size=80)


@given(WORDS, some_spans().filter(bool))
def test_cues_keep_every_word_in_order_within_the_speech(words: list[str], spans: list[Span]) -> None:
    found = cues(" ".join(words), spans)
    assert [word for cue in found for word in cue.text.split()] == words
    assert all(spans[0].start <= cue.start <= cue.end <= spans[-1].end + 1e-6 for cue in found)
    assert all(before.end <= after.start for before, after in pairwise(found))


def test_sentences_end_at_the_pauses() -> None:
    found = cues("One two three. Four five six.", [Span(1.0, 2.0), Span(2.5, 3.6)])
    assert [(cue.start, cue.end) for cue in found] == [(1.0, 2.0), (2.5, 3.6)]


def test_a_long_sentence_is_cut_at_its_commas() -> None:
    sentence = "a" * 60 + " " + "b" * 20 + ", " + "c" * 70
    assert parts(sentence) == ["a" * 60 + " " + "b" * 20 + ",", "c" * 70]
    assert all(len(part) <= LONGEST for part in parts("word " * 100))
    assert parts("x" * 500) == ["x" * 500]


def test_a_full_gpu_makes_the_batch_smaller_for_the_rest() -> None:
    sizes: list[int] = []

    def run(batch: Sequence[int]) -> list[int]:
        sizes.append(len(batch))
        if len(batch) > 2:
            raise RuntimeError("CUDA failed with error out of memory")
        return list(batch)

    results = list(in_batches(range(7), 8, run))
    assert [item for batch, _ in results for item in batch] == list(range(7))
    assert sizes == [7, 3, 1, 1, 1, 1, 1, 1, 1] and results[-1][1] == 1


def test_a_gpu_too_full_for_one_is_settled_as_out_of_memory() -> None:
    def run(_: Sequence[int]) -> list[int]:
        raise RuntimeError("cuBLAS failed with status CUBLAS_STATUS_ALLOC_FAILED")

    with pytest.raises(GpuOutOfMemoryError) as caught:
        list(in_batches([1], 8, run))
    failed = run_task(Failing(caught.value)).outcome
    assert isinstance(failed, Failed) and failed.gpu_oom


def test_another_error_is_not_taken_for_a_full_gpu() -> None:
    def run(_: Sequence[int]) -> list[int]:
        raise RuntimeError("invalid shape")

    with pytest.raises(RuntimeError, match="invalid shape"):
        list(in_batches([1, 2], 2, run))
