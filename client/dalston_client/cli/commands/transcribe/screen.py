"""The screen of `dalston transcribe`: a bar per recording on its way, as many as fit, and one for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from dalston_client.cli import text
from dalston_client.cli.commands.transcribe.files import OVER, Phase, Recording

REDRAWS_PER_S = 8
NAME_WIDTH, BAR_WIDTH, WHAT_WIDTH = 32, 24, 60
MARGIN = 4
"""Lines of a terminal that stay free of bars."""


class Screen:
    """Redrawn by a thread of its own; on something else than a terminal it draws nothing."""

    def __init__(self, console: Console, recordings: Sequence[Recording], *, is_live: bool) -> None:
        self._console, self._recordings = console, recordings
        self._live = Live(
            get_renderable=self._drawn,
            console=console,
            refresh_per_second=REDRAWS_PER_S,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._is_live = is_live

    def __enter__(self) -> Self:
        if self._is_live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_live:
            self._live.stop()

    def _drawn(self) -> RenderableType:
        table = Table.grid(padding=(0, 1))
        under_way = [each for each in self._recordings if each.phase not in OVER and each.phase is not Phase.TODO]
        for each in under_way[: max(1, self._console.height - MARGIN)]:
            share, what = _state(each)
            table.add_row(
                Text(text.short(each.filename, NAME_WIDTH)), ProgressBar(1.0, share, BAR_WIDTH), f"{share:4.0%}", what
            )
        over = sum(each.phase in OVER for each in self._recordings)
        whole = len(self._recordings)
        if whole > 1:
            table.add_row(Text("all", style="bold"), ProgressBar(whole, over, BAR_WIDTH), f"{over}/{whole}", "")
        return table


def _state(recording: Recording) -> tuple[float, str]:
    """The share that is done of what happens now, and what that is."""
    if recording.phase is not Phase.SUBMITTED:
        return recording.sent, recording.phase.value
    return recording.progress, text.short(recording.waits or recording.status, WHAT_WIDTH)
