"""Why somebody presses a button: a sentence of theirs, kept in the audit trail."""

from __future__ import annotations

from django.http import HttpRequest

LONGEST = 500


def reason_of(request: HttpRequest) -> str:
    """Empty if none was given. Postgres holds no U+0000."""
    return request.POST.get("reason", "").replace("\x00", "").strip()[:LONGEST]
