"""The plan of a file: chunks cut in silence, stages with their parents and timeouts."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dalston_queue.jobs.lifecycle.dag import check
from dalston_queue.jobs.submit.spec import stage_from
from dalston_queue.transcription.speech_models import capability_of
from engines.prepare.levels import STEP_S, cut_in_silence, levels_of, peaks
from engines.prepare.planning import Chunk, longest_chunk, stages

REF = "sha256:" + "0" * 64


def chunks(count: int, seconds: float = 100.0) -> list[Chunk]:
    return [Chunk(REF, number * seconds, (number + 1) * seconds) for number in range(count)]


def names(planned: list[dict[str, Any]]) -> list[str]:
    return [stage["stage"] for stage in planned]


def test_one_chunk_of_one_channel_has_plain_names() -> None:
    planned = stages({"words": True, "align": True}, [chunks(1)], 100.0)
    assert names(planned) == ["transcribe", "align", "merge"]
    assert planned[1]["after"] == ["transcribe"] and not planned[1]["required"]
    assert planned[2]["after"] == ["transcribe", "align"]


def test_channels_and_chunks_are_in_the_names() -> None:
    assert names(stages({}, [chunks(1), chunks(2)], 200.0)) == [
        "transcribe_ch0", "transcribe_ch1_p1", "transcribe_ch1_p2", "merge",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"model": "auto"}, []),
        ({"model": "auto", "language": "en"}, []),
        ({"model": "auto", "language": "de"}, ["multilingual"]),
        ({"model": "moonshine-tiny"}, ["moonshine-tiny"]),
        ({"model": "whisper-large-v3.5", "language": "de"}, ["whisper-large-v3-5"]),
    ],
)
def test_a_model_is_a_capability(wanted: dict[str, str], expected: list[str]) -> None:
    assert stages(wanted, [chunks(1)], 100.0)[0]["required_capabilities"] == expected
    assert capability_of("A/b.c") == "a-b-c"


def test_words_of_another_language_are_not_aligned() -> None:
    assert names(stages({"words": True, "language": "de"}, [chunks(1)], 9.0)) == ["transcribe", "merge"]
    assert names(stages({"words": True, "align": False}, [chunks(1)], 9.0)) == ["transcribe", "merge"]


def test_timeouts_follow_the_duration() -> None:
    short, long = (stages({}, [[Chunk(REF, 0.0, seconds)]], seconds) for seconds in (10.0, 1000.0))
    assert [stage["timeout_seconds"] for stage in short] == [360, 120]
    assert [stage["timeout_seconds"] for stage in long] == [6300, 136]


def test_the_progress_is_mostly_that_of_the_recognition() -> None:
    planned = stages({"words": True}, [chunks(4)], 400.0)
    weights = {
        name: sum(each["weight"] for each in planned if each.get("queue") == name) for name in ("transcribe", "align")
    }
    assert weights == {"transcribe": 16.0, "align": 8.0}
    assert "weight" not in planned[-1]  # merge has 1, as prepare


@given(st.floats(0.1, 86_400), st.integers(1, 32), st.floats(30, 3600), st.booleans())
def test_every_plan_is_a_valid_dag(duration: float, channels: int, wanted: float, aligned: bool) -> None:
    longest = longest_chunk(duration, channels, wanted, aligned=aligned)
    spans = cut_in_silence(np.zeros(int(duration / STEP_S) + 1, np.float32), duration, longest)
    channel = [Chunk(REF, start, end) for start, end in spans]
    planned = stages({"words": aligned}, [channel] * channels, duration)
    check([stage_from(stage) for stage in planned], {"prepare"})


ENERGY = st.lists(st.floats(0, 1, width=32), min_size=1, max_size=3000)


@given(ENERGY, st.floats(2.0, 60.0))
def test_chunks_cover_everything_once_and_are_not_too_long(energy: list[float], longest: float) -> None:
    duration = len(energy) * STEP_S
    spans = cut_in_silence(np.array(energy, np.float32), duration, longest)
    assert spans[0][0] == 0.0 and spans[-1][1] == duration
    assert all(before[1] == after[0] for before, after in pairwise(spans))
    assert all(0 < end - start <= longest + STEP_S for start, end in spans)


def test_it_is_cut_where_it_is_quiet() -> None:
    energy = np.ones(2400, np.float32)  # 120 s
    for at in (560, 1240, 1840):
        energy[at - 10 : at + 10] = 0.0
    spans = cut_in_silence(energy, 120.0, 50.0)
    quiet = [at * STEP_S for at in (560, 1240, 1840)]
    assert len(spans) == 4 and all(min(abs(end - moment) for moment in quiet) < 0.6 for _, end in spans[:-1])


def test_peaks_show_the_loudest_of_all_channels() -> None:
    samples = np.zeros(16_000 * 60, np.int16)
    samples[16_000 * 30 :] = 1000
    _, highest = levels_of(samples)
    shown = peaks([highest, (highest / 2).astype(np.float32)])
    assert len(shown) == 600 and shown[0] == 0 and shown[-1] == 100
    assert shown.index(100) == 300
    assert peaks([np.zeros(0, np.float32)]) == [] and peaks([np.zeros(5, np.float32)]) == [0] * 5
