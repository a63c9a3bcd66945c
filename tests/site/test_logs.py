"""Structured logs of every library: readable lines in development, JSON in production."""

import json
import os
import subprocess
import sys

from tests.conftest import ROOT
from tests.site.settings.production import PRODUCTION

PROGRAM = """
import django, logging, structlog
django.setup()
structlog.get_logger("ours").info("task queued", task_id="t1", queue="echo")
logging.getLogger("uvicorn.error").warning("port %d", 80, extra={"color_message": "x"})
try:
    1 / 0
except ZeroDivisionError:
    structlog.get_logger("ours").exception("broken")
logging.getLogger("huey").info("not worth a line")
from dalston_queue import task_log
rows = [{"event": "task_queued", "task_id": name, "error_type": "a b\\nc"} for name in ("t2", "t3")]
task_log.write(logging.getLogger("lifecycle"), logging.INFO, rows)
task_log.write(logging.getLogger("lifecycle"), logging.DEBUG, rows)
"""

SCANNER = """
import django
django.setup()
from django.test import Client
for path in ("/nodes/", "/api/v1/jobs"):
    assert Client().get(path, headers={"host": "evil.example"}).status_code == 400
"""


def lines(program: str = PROGRAM, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "DJANGO_SETTINGS_MODULE": "dalston_site.settings", **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr.splitlines()


def test_production_writes_one_json_object_per_line() -> None:
    queued, port, broken, *moved = [json.loads(line) for line in lines(**PRODUCTION)]
    assert queued.items() >= {"event": "task queued", "level": "info", "task_id": "t1", "queue": "echo"}.items()
    assert queued["timestamp"].endswith("Z")
    assert port.items() >= {"event": "port 80", "level": "warning", "logger": "uvicorn.error"}.items()
    assert "color_message" not in port
    assert broken["exception"][0]["exc_type"] == "ZeroDivisionError"
    assert [line["task_id"] for line in moved] == ["t2", "t3"]
    assert moved[0].items() >= {"event": "task_queued", "level": "info", "logger": "lifecycle"}.items()
    assert moved[0]["timestamp"].endswith("Z")


def test_development_writes_words_with_key_and_value() -> None:
    queued, port, *broken, first, second = lines(DALSTON_DEV="1")
    assert "[info     ] task queued" in queued
    assert "queue=echo task_id=t1" in queued
    assert "port 80" in port
    assert broken[-1] == "ZeroDivisionError: division by zero"
    assert "[info     ] task_queued" in first and "[lifecycle] task_id=t2 error_type='a b\\nc'" in first
    assert "task_id=t3" in second


def test_a_wrong_host_is_one_line_and_no_traceback() -> None:
    page, route = lines(SCANNER, DALSTON_DEV="1")
    for text, path in ((page, "/nodes/"), (route, "/api/v1/jobs")):
        assert "[warning  ] Invalid HTTP_HOST header: 'evil.example'." in text
        assert f"method=GET path={path}" in text


REFUSED = """
import django
django.setup()
from django.conf import settings
from django.test import Client
headers = {"host": settings.ALLOWED_HOSTS[0], "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
Client().get("/api/v1/jobs?code=secret", headers=headers, secure=True)
"""


def test_a_refused_request_is_logged_with_its_trace_and_without_its_query() -> None:
    """A query may hold a code to sign in with, or what a client searches for."""
    [text] = [each for each in lines(REFUSED, **PRODUCTION) if "status_code" in each]
    found = json.loads(text)
    assert [found[name] for name in ("method", "path", "status_code")] == ["GET", "/api/v1/jobs", 401]
    assert found["trace_id"] == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert "secret" not in text and "request" not in found
