"""Fragments as a template's context: each by its id, ready to be put in place."""

from __future__ import annotations

from django.utils.safestring import SafeString, mark_safe

from dalston_queue.dashboard.live.board import Fragment


def pieces(fragments: list[Fragment]) -> dict[str, SafeString]:
    # Rendered by our own partials, which escape what they show.
    return {fragment.id.replace("-", "_"): mark_safe(fragment.html) for fragment in fragments}  # noqa: S308
