"""Real recordings and the real model for tests: fetched from the registries once per machine, never committed."""

import os
from pathlib import Path

import pytest

from engines.sdk.models import FetchError, Model, Package, fetch, models_dir, read_models
from tests.conftest import ROOT

_FOLDER = "moonshine_voice/assets/"
NAMES = ("two_cities.wav", "beckett.wav", "endgame_nagg_nell.wav")
RECORDINGS = Model(
    "Recordings",
    "MIT",
    (
        Package(
            sha512="8d1607faa6a7138cd1f89faed70ef97226263e145e03428736fb19f12fa5e98bc35d7d47ef958a31b653c290a070b79fe5fce0a10f124ee6743136469be0456e",
            bytes=19897307,
            files={name: _FOLDER + name for name in NAMES},
            pypi="moonshine-voice==0.1.5",
        ),
    ),
)
TWO_CITIES = """
It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness,
it was the epoch of belief, it was the epoch of incredulity, it was the season of Light, it was the season of Darkness,
it was the spring of hope, it was the winter of despair, we had everything before us, we had nothing before us, we were
all going direct to Heaven, we were all going direct the other way: in short, the period was so far like the present
period, that some of its noisiest authorities insisted on its being received, for good or for evil, in the superlative
degree of comparison only."""


def recording(name: str) -> Path:
    return _fetched("recordings", RECORDINGS) / name


def moonshine_folder() -> Path:
    return _fetched("moonshine-tiny", read_models(ROOT / "engines" / "transcribe")["moonshine-tiny"])


def _fetched(name: str, model: Model) -> Path:
    """Without a network the test is skipped, or fails in CI."""
    try:
        return fetch(name, model, models_dir(), lambda *_: None)
    except FetchError as error:
        return (pytest.fail if os.environ.get("CI") else pytest.skip)(str(error))


def word_error_rate(heard: str, text: str = TWO_CITIES) -> float:
    """By jiwer: without case and punctuation, as is usual."""
    import jiwer

    plain = jiwer.Compose(
        [
            jiwer.ToLowerCase(),
            jiwer.SubstituteRegexes({r"[-\n]": " "}),
            jiwer.RemovePunctuation(),  # type: ignore[no-untyped-call]
            jiwer.RemoveMultipleSpaces(),
            jiwer.Strip(),
            jiwer.ReduceToListOfListOfWords(),
        ]
    )
    return float(jiwer.wer(text, heard, reference_transform=plain, hypothesis_transform=plain))
