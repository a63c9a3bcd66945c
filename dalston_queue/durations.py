"""How long something takes, as a person says it."""


def in_words(seconds: float) -> str:
    """45 s, 12 min, 3 h."""
    if seconds < 90:
        return f"{round(seconds)} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{round(seconds / 3600)} h"
