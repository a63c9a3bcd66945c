"""Fragments of the page of transcriptions, the same for the page and its WebSocket."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from django.utils.html import format_html

from dalston_queue.dashboard.live.fragments import Fragment, Row, as_of, render, table
from dalston_queue.dashboard.parts.request import address
from dalston_queue.dashboard.parts.words import TASK_TONES, clock
from dalston_queue.dashboard.transcriptions.read import TranscriptionLine, TranscriptionsView, read_transcriptions

EMPTY = "No transcription yet. Drop a recording above, or send one over the API as the README shows."


def transcriptions_fragments(query: Mapping[str, str]) -> list[Fragment]:
    return fragments_of(read_transcriptions(query), query)


def fragments_of(view: TranscriptionsView, query: Mapping[str, str]) -> list[Fragment]:
    older = address(query, after=view.older) if view.older else ""
    newest = address(query, after=None) if "after" in query else ""
    problem = format_html('<p class="notice bad" role="alert">{}</p>', view.problem) if view.problem else ""
    empty = "Nothing was read." if view.problem else "There are no older ones." if newest else EMPTY
    return [
        as_of(view.at),
        Fragment("list-problem", format_html('<div id="list-problem">{}</div>', problem)),
        table("transcriptions", [_row(row) for row in view.rows], columns=4, empty=empty, source="Postgres"),
        Fragment("older", render("_older", older=older, newest=newest)),
    ]


@lru_cache(maxsize=1024)
def _row(row: TranscriptionLine) -> Row:
    row_id = f"transcription-{row.id}"
    length = "" if row.duration is None else clock(row.duration)
    tone = TASK_TONES.get(row.status, "")
    return Row(row_id, render("transcriptions/_row", row_id=row_id, row=row, tone=tone, length=length))
