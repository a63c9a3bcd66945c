"""Real processes under production settings: they start, or refuse to with a check id."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.site.settings.production import PRODUCTION


def run(*arguments: str, **changes: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:dalston_.*", *arguments],
        cwd=ROOT,
        env={**kept, **PRODUCTION, **changes},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_check_deploy_is_clean_once_static_files_are_collected(tmp_path: Path) -> None:
    static = {"DALSTON_STATIC_ROOT": str(tmp_path)}
    assert "dalston.W280" in run("manage.py", "check", "--deploy", **static).stderr
    assert run("manage.py", "collectstatic", "--noinput", **static).returncode == 0
    done = run("manage.py", "check", "--deploy", "--fail-level", "WARNING", **static)
    assert done.returncode == 0, done.stderr
    assert "no issues (1 silenced)" in done.stdout


@pytest.mark.parametrize(
    ("name", "value", "check_id"),
    [
        ("DALSTON_SECRET_KEY", "", "dalston.E002"),
        ("DALSTON_DEBUG", "1", "dalston.E003"),
        ("DALSTON_ALLOWED_HOSTS", "*", "dalston.E005"),
        ("DATABASE_URL", "", "dalston.E006"),
    ],
)
def test_the_web_process_refuses_to_start(name: str, value: str, check_id: str) -> None:
    done = run("-m", "uvicorn", "dalston_site.asgi:application", "--port", "0", **{name: value})
    assert done.returncode != 0
    assert check_id in done.stderr
    assert "Traceback" not in done.stderr


def test_a_command_refuses_to_start_too() -> None:
    done = run("manage.py", "run_huey", DALSTON_HEARTBEAT_S="15")
    assert done.returncode == 1
    assert "(dalston.E201) DALSTON_DEAD_AFTER_S (20) is less than 2 x DALSTON_HEARTBEAT_S (30)." in done.stderr


def test_a_bad_variable_is_named() -> None:
    done = run("manage.py", "check", DALSTON_MAX_DELIVERIES="three")
    assert done.returncode == 1
    assert "DALSTON_MAX_DELIVERIES is 'three'. Expected a whole number, such as 30." in done.stderr


def test_browsers_keep_to_https_and_no_list_of_theirs_names_the_domain() -> None:
    """A domain stays on the preload list for years, with all hosts below it."""
    code = (
        "import django; django.setup(); from django.test import Client;"
        "print(Client().get('/login/', secure=True, headers={'host': 'dalston.example.com'})"
        ".headers['Strict-Transport-Security'])"
    )
    done = run("-c", code, DJANGO_SETTINGS_MODULE="dalston_site.settings")
    assert done.stdout.strip() == "max-age=31536000; includeSubDomains", done.stderr
