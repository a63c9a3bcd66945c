"""Which models this process has: a whisper model on a GPU; else Moonshine, fetched, and pocketsphinx, bundled."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path

from dalston_queue.defaults import ENGINE_THREADS
from dalston_queue.transcription.speech_models import AUTO, LAST_RESORT, capability_of
from engines.sdk import BrokenConfigError
from engines.sdk.models import ELSEWHERE, FetchError, fetch, models_dir, read_models

from .recogniser import Recogniser

log = logging.getLogger("engine")

HERE = Path(__file__).resolve().parent
FIRST_BATCH = 8  # windows that Whisper recognises at once: WHISPER_BATCH
RETRY_S, RETRY_MAX_S = 60.0, 900.0
Tell = Callable[[str], None]


class Models:
    """The models of one process. `auto` is the one that was loaded first."""

    def __init__(self, tell: Tell) -> None:
        self._loaded: dict[str, Recogniser] = {}
        tell("loading the model")
        self.missing = ""  # why Moonshine is not here
        if size := os.environ.get("WHISPER_MODEL", "").strip():
            self._add(_whisper(size))
            return
        try:
            folder = fetched("moonshine-tiny", tell)
            tell("loading the model")
            self._add(_moonshine(folder))
        except FetchError as error:
            self.missing = f"without moonshine-tiny: {error}"
            log.warning("%s; auto is pocketsphinx-en until it is fetched", self.missing)
            threading.Thread(target=_fetch_later, name="fetch", daemon=True).start()

    @property
    def names(self) -> tuple[str, ...]:
        """Of all models that `get` has."""
        return tuple(self._loaded) if self._speaks_many else tuple(dict.fromkeys((*self._loaded, LAST_RESORT)))

    @property
    def capabilities(self) -> tuple[str, ...]:
        return (*map(capability_of, self.names), *(("multilingual",) if self._speaks_many else ()))

    @property
    def _speaks_many(self) -> bool:
        """Whisper: then no English model is offered."""
        return any(recogniser.languages is None for recogniser in self._loaded.values())

    def get(self, name: str) -> Recogniser | None:
        """The model of this name; `auto` is the best one. None if it is not here."""
        if name == AUTO:
            name = next(iter(self._loaded), LAST_RESORT)
        if name == LAST_RESORT and name not in self._loaded:  # rarely asked for: loaded by the first task
            from .sphinx import Sphinx

            self._add(Sphinx())
        return self._loaded.get(name)

    def _add(self, recogniser: Recogniser) -> None:
        self._loaded[recogniser.name] = recogniser


def fetched(name: str, tell: Tell) -> Path:
    """The folder of a model of this engine, fetched if it is missing. Raises FetchError."""
    model = read_models(HERE)[name]

    def report(share: float, what: str) -> None:
        tell(what if what == ELSEWHERE else f"fetching the model, {share * 100:.0f} %")

    return fetch(name, model, models_dir(), report)


def threads() -> int:
    return _whole("DALSTON_ENGINE_THREADS", ENGINE_THREADS)


def _whole(name: str, default: int) -> int:
    text = os.environ.get(name, "").strip() or str(default)
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text) <= 256:
        raise BrokenConfigError(f"{name} is {text!r}. Expected a whole number from 1 to 256.")
    return int(text)


def _moonshine(folder: Path) -> Recogniser:
    from .moonshine import Moonshine

    return Moonshine(folder, threads())


def _whisper(size: str) -> Recogniser:
    from .whisper import Whisper, load_pipeline

    name, batch = f"whisper-{size}", _whole("WHISPER_BATCH", FIRST_BATCH)
    try:
        return Whisper(name, load_pipeline(name, size), batch)
    except ImportError as error:
        raise BrokenConfigError(f"install the extra `whisper` on this node: {error}") from None


def _fetch_later() -> None:
    """Tries until Moonshine is here, then has this process started anew: its capabilities are reported at the start."""
    delay = RETRY_S
    while True:
        threading.Event().wait(delay)
        delay = min(delay * 2, RETRY_MAX_S)
        try:
            fetched("moonshine-tiny", lambda _: None)
        except FetchError as error:
            log.info("moonshine-tiny is still missing: %s", error)
            continue
        log.warning("moonshine-tiny is fetched: finishing, to start anew with it")
        os.kill(os.getpid(), signal.SIGTERM)
        return
