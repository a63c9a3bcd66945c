"""Structured logs: one readable line per event in development, one JSON object per line in production.

It covers every logger of the process: structlog's and the standard library's, with uvicorn's and huey's.
"""

import logging
from typing import Any

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from dalston_queue import task_log

MAX_PATH = 200


def config(*, json: bool, level: str) -> dict[str, Any]:
    """Django's LOGGING. Also configures structlog to log through it."""
    logging.captureWarnings(True)  # else a warning of Python would be lines of its own form
    shared = _shared(time_format="iso" if json else "%H:%M:%S.%f")
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.PositionalArgumentsFormatter(),
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    last: list[Processor] = (
        [structlog.processors.ExceptionRenderer(_traceback), structlog.processors.JSONRenderer()]
        if json
        else [structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)]
    )
    formatter = {
        "()": _Formatter,
        "json": json,
        "foreign_pre_chain": shared,
        "processors": [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
    }
    # Their own handlers would print a second time; huey adds one to a logger that has none.
    ours = {"handlers": ["stderr"], "propagate": False}
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"structured": formatter},
        "filters": {"brief": {"()": lambda: _brief}},
        "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "structured"}},
        "root": {"handlers": ["stderr"], "level": level},
        "loggers": {
            "django": {**ours, "level": level},
            "django.security.DisallowedHost": {"filters": ["brief"]},  # port scanners send wrong hosts
            "huey": {**ours, "level": "WARNING"},  # it logs each start of a duty; the duties log what they did
            "authlib": {"level": "INFO"},  # at DEBUG it logs what a sign-in keeps secret
            "psycopg.pool": {"level": "ERROR"},  # a warning per attempt while Postgres is away; its callers say so once
            "uvicorn": ours,
            "uvicorn.error": {"handlers": [], "propagate": True},
            "uvicorn.access": {"handlers": [], "propagate": False},  # the reverse proxy has that log
        },
    }


_traceback = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)  # they hold tokens and payloads


class _Formatter(structlog.stdlib.ProcessorFormatter):
    """Also of records that carry many lines about tasks (task_log.py), which pass no processors: they are thousands."""

    def __init__(self, *, json: bool, **options: Any) -> None:
        super().__init__(**options)
        self._lines = task_log.json_lines if json else task_log.plain_lines

    def format(self, record: logging.LogRecord) -> str:
        rows = task_log.rows_of(record)
        return self._lines(record, rows) if rows else super().format(record)


def _brief(record: logging.LogRecord) -> bool:
    """Makes it a warning without a traceback."""
    record.levelno, record.levelname, record.exc_info = logging.WARNING, "WARNING", None
    return True


def _shared(time_format: str) -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.ExtraAdder(),
        _name_request,
        _drop_colours,
        structlog.processors.TimeStamper(fmt=time_format, utc=True),
    ]


def _name_request(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Django logs an answer after the middleware that knows its trace, and with the request's whole address: a query
    may hold a code to sign in with, or what a client searches for."""
    request = event.pop("request", None)
    if hasattr(request, "path"):
        event.update(method=str(request.method), path=request.path[:MAX_PATH])
        if trace_id := getattr(request, "trace_id", None):
            event.setdefault("trace_id", trace_id)
    return event


def _drop_colours(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """uvicorn sends each message a second time, with terminal colours."""
    event.pop("color_message", None)
    return event
