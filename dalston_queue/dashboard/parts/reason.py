"""Why somebody presses a button: a sentence of theirs, kept in the audit trail."""

from __future__ import annotations

from django.http import HttpRequest

LONGEST = 500


def reason_of(request: HttpRequest) -> str:
    """Empty if none was given."""
    return cleaned(request.POST.get("reason", ""))


def cleaned(text: str) -> str:
    """Postgres holds no U+0000."""
    return text.replace("\x00", "").strip()[:LONGEST]
