"""Moonshine tiny on the CPU: two ONNX graphs, a greedy decode loop, and the vocabulary that makes text of tokens."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from engines.audio.samples import RATE, Samples
from engines.audio.speech import Window

from .recogniser import Heard

LAYERS, HEADS, HEAD_SIZE = 6, 8, 36
FIRST_TOKEN, LAST_TOKEN = 1, 2
TOKENS_PER_S = 6.5  # faster than anyone speaks: a decoder that repeats itself ends here
SHORTEST = RATE // 10  # samples; the encoder's convolutions need some
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")

Array = NDArray[Any]


class Moonshine:
    name = "moonshine-tiny"
    languages = ("en",)
    longest_s = 25.0  # it was trained on clips of up to 30 s

    def __init__(self, folder: Path, threads: int) -> None:
        self._encoder = _session(folder / "encoder_model.onnx", threads)
        self._decoder = _session(folder / "decoder_model_merged.onnx", threads)
        self._cache_names = [
            item.name for item in self._decoder.get_inputs() if item.name.startswith("past_key_values")
        ]
        self._pieces = read_pieces(folder / "tokenizer.json")

    def recognise(
        self,
        samples: Samples,
        windows: Sequence[Window],
        language: str | None,  # noqa: ARG002 (it has one)
        *,
        words: bool,  # noqa: ARG002 (it gives no times of words)
        tick: Callable[[], None],
    ) -> Iterator[Heard]:
        for window in windows:
            part = window.cut(samples)
            if len(part) >= SHORTEST:
                tokens, confidence = self._decode((part / 32768).astype(np.float32), tick)
                yield Heard(window, text_of(tokens, self._pieces), confidence)

    def _decode(self, audio: NDArray[np.float32], tick: Callable[[], None]) -> tuple[list[int], float]:
        """The likeliest token, again and again. Its mean probability is the confidence."""
        hidden = self._encoder.run(None, {"input_values": audio[None]})[0]
        cache: dict[str, Array] = {name: np.zeros((0, HEADS, 1, HEAD_SIZE), np.float32) for name in self._cache_names}
        tokens, chances = [FIRST_TOKEN], [0.0]
        for step in range(int(len(audio) / RATE * TOKENS_PER_S) + 1):
            tick()
            inputs = {
                "input_ids": np.array([[tokens[-1]]]),
                "encoder_hidden_states": hidden,
                "use_cache_branch": np.array([step > 0]),
            }
            logits, *present = self._decoder.run(None, {**inputs, **cache})
            scores = logits[0, -1]
            best = int(scores.argmax())
            if best == LAST_TOKEN:
                break
            tokens.append(best)
            chances.append(-float(np.log(np.exp(scores - scores[best]).sum())))
            # The output of the encoder never changes, so the graph returns it in the first step only.
            caches = zip(self._cache_names, present, strict=True)
            cache |= {name: value for name, value in caches if step == 0 or ".decoder." in name}
        return tokens[1:], round(float(np.exp(np.mean(chances))), 3)


def read_pieces(file: Path) -> dict[int, str]:
    """The vocabulary of a tokenizer.json. Only its decoding is needed, which is a few lines: the library for it brings
    a client of a model hub, 30 MB in all."""
    document = json.loads(file.read_text(encoding="utf-8"))
    return {number: piece for piece, number in document["model"]["vocab"].items()}


def text_of(tokens: Sequence[int], pieces: dict[int, str]) -> str:
    """Pieces joined; ▁ is a space, <0xE2> a byte of UTF-8; control tokens have no text."""
    encoded = bytearray()
    for token in tokens:
        piece = pieces.get(token, "") if token > LAST_TOKEN else ""
        byte = _BYTE.fullmatch(piece)
        encoded += bytes([int(byte[1], 16)]) if byte else piece.replace("▁", " ").encode()
    return " ".join(encoded.decode(errors="replace").split()).replace(",,", ",")


def _session(file: Path, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
