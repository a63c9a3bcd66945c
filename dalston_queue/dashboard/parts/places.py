"""Addresses of our own pages, for sentences and lines that lead to them."""

from __future__ import annotations

from django.urls import NoReverseMatch, reverse


def place(page: str, *names: str) -> str:
    """Empty if that has no page: an engine may give any text as its node, an act's target may be "3 dead letters"."""
    try:
        return reverse(f"dashboard:{page}", args=names)
    except NoReverseMatch:
        return ""
