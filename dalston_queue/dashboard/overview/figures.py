"""The figures of the overview: the last hour of all queues, from the minute samples.

The samples are read every ten seconds for all viewers, and a figure is drawn again only if its numbers changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from django.conf import settings
from django.utils.html import format_html
from django.utils.safestring import SafeString

from dalston_queue.broker.protocol.types import Cause
from dalston_queue.dashboard.live.fragments import Fragment
from dalston_queue.dashboard.overview.values import Past
from dalston_queue.dashboard.parts.charts import Numbers, series
from dalston_queue.dashboard.parts.figures import Bar, Line, Values, bars, lines, percent, plain
from dalston_queue.dashboard.parts.words import duration
from dalston_queue.jobs.queries.pace import in_words
from dalston_queue.jobs.queries.waits import AGE_LIMITS

Samples = Sequence[Numbers | None]
NAMES = ("throughput", "failures", "waits", "runs", "ages", "retries", "utilisation")
NO_SAMPLES = "No sample yet: the duty samples takes one each minute."


def figure_fragments(past: Past | None) -> Iterator[Fragment]:
    """None: Postgres does not answer."""
    for name in NAMES:
        drawn = None if past is None else _FIGURES[name](past)
        yield Fragment(f"figure-{name}", _figure(name, drawn))


@lru_cache(maxsize=64)
def _figure(name: str, drawn: SafeString | None) -> str:
    body: str = drawn or "" if drawn is not None else "Not known: Postgres does not answer."
    if drawn is None:
        body = format_html('<p class="unknown">{}</p>', body)
    return format_html('<div id="figure-{}" class="figure">{}</div>', name, body)


def _empty(samples: Samples, text: str) -> SafeString:
    return format_html('<p class="quiet">{}</p>', text if any(samples) else NO_SAMPLES)


def _values(samples: Samples, of: Callable[[Numbers], float | None]) -> Values:
    return tuple(None if each is None else of(each) for each in samples)


def _throughput(past: Past) -> SafeString:
    drawn = _lines(
        "Tasks a minute",
        (
            Line("completed", tuple(series(past.tasks, "completed"))),
            Line("failed", tuple(series(past.tasks, "failed")), "bad"),
        ),
    )
    return drawn or _empty(past.tasks, "")


def _failures(past: Past) -> SafeString:
    rate = Line("failed attempts", _values(past.tasks, failure_rate), "bad")
    drawn = _lines("Failure rate", (rate,), percent, threshold=settings.DALSTON_ALERT_FAILURE_RATE)
    return drawn or _empty(past.tasks, "No attempt ended in the samples of the last hour.")


def failure_rate(numbers: Numbers) -> float | None:
    """Of the attempts that ended in the minute, retried or not; None without one."""
    failed = numbers.get("failed", 0) + sum(numbers.get(f"retry_{cause}", 0) for cause in Cause)
    attempts = failed + numbers.get("completed", 0)
    return round(failed / attempts, 4) if attempts else None


def _percentiles(past: Past, title: str, name: str) -> SafeString:
    three = (("p50", "one"), ("p95", "two"), ("p99", "three"))
    drawn = tuple(Line(share, tuple(series(past.tasks, f"{name}_{share}")), tone) for share, tone in three)
    return _lines(title, drawn, duration)


def _waits(past: Past) -> SafeString:
    return _percentiles(past, "Wait from ready to started", "wait") or _empty(
        past.tasks, "No task that had started ended in the samples of the last hour."
    )


def _runs(past: Past) -> SafeString:
    return _percentiles(past, "Duration of completed tasks", "run") or _empty(
        past.tasks, "No task completed in the samples of the last hour."
    )


def _ages(past: Past) -> SafeString:
    """Of the newest sample."""
    newest = next((each for each in reversed(past.tasks) if each is not None and "age_more" in each), None)
    if newest is None:
        return _empty(past.tasks, "Not known yet.")
    steps = [(f"up to {in_words(limit)}", newest.get(f"age_{limit}", 0)) for limit in AGE_LIMITS]
    steps.append((f"over {in_words(AGE_LIMITS[-1])}", newest.get("age_more", 0)))
    if unread := newest.get("age_unread", 0):
        steps.insert(0, ("younger, not read", unread))
    drawn = _bars("Waiting tasks by age", tuple(Bar(*step) for step in steps), "tasks")
    return drawn or _empty(past.tasks, "Nothing waits.")


def _retries(past: Past) -> SafeString:
    sums = {cause: sum(each.get(f"retry_{cause}", 0) for each in past.tasks if each is not None) for cause in Cause}
    worst = sorted((cause for cause in Cause if sums[cause]), key=lambda cause: -sums[cause])
    drawn = _bars("Retries by reason", tuple(Bar(cause, sums[cause]) for cause in worst), "retries in the last hour")
    return drawn or _empty(past.tasks, "No retry in the samples of the last hour.")


def _utilisation(past: Past) -> SafeString:
    used = Line("slots in use", _values(past.workers, utilisation))
    drawn = _lines("Slots in use", (used,), percent, top=1.0, threshold=settings.DALSTON_ALERT_UTILISATION)
    return drawn or _empty(past.workers, "No engine was ready in the samples of the last hour.")


def utilisation(numbers: Numbers) -> float | None:
    """The share of the slots of ready engines that ran a task; None without an engine."""
    capacity = numbers.get("capacity", 0)
    return round(min(1.0, numbers.get("running", 0) / capacity), 4) if capacity else None


_FIGURES: dict[str, Callable[[Past], SafeString]] = {
    "throughput": _throughput,
    "failures": _failures,
    "waits": _waits,
    "runs": _runs,
    "ages": _ages,
    "retries": _retries,
    "utilisation": _utilisation,
}


@lru_cache(maxsize=64)
def _lines(
    title: str,
    drawn: tuple[Line, ...],
    words: Callable[[float], str] = plain,
    *,
    top: float | None = None,
    threshold: float | None = None,
) -> SafeString:
    return lines(title, drawn, words, top=top, threshold=threshold)


@lru_cache(maxsize=64)
def _bars(title: str, drawn: tuple[Bar, ...], noun: str) -> SafeString:
    return bars(title, drawn, noun)
