"""Whatever an author gives for text, as text that can be sent: no surrogates, and not longer than it may be."""

from __future__ import annotations

MESSAGE_BYTES = 8 * 1024
TRACEBACK_BYTES = 32 * 1024
_NOTE_BYTES = 64  # room for the words that say how much is missing


def text(value: object, limit: int = MESSAGE_BYTES) -> str:
    """Never raises. Of one that is too long both ends are kept: what it is about, and what came last."""
    try:
        encoded = str.encode(str(value), "utf-8", "backslashreplace")
    except BaseException:  # noqa: BLE001 (an author's own __str__, which may even exit)
        return f"a {type(value).__name__} that can't be shown as text"
    if len(encoded) <= limit:
        return encoded.decode()
    half = (limit - _NOTE_BYTES) // 2
    start, end = (part.decode(errors="ignore") for part in (encoded[:half], encoded[-half:]))
    return f"{start}\n[… {len(encoded) - 2 * half} bytes cut …]\n{end}"
