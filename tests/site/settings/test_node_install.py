"""Settings on a GPU node, without database driver and web framework: only the supervisor's app is loaded."""

import subprocess
import sys

from tests.conftest import ROOT

# Packages of the extra `server` that the extra `node` lacks.
ABSENT = {
    "psycopg",
    "psycopg_pool",
    "ninja",
    "channels",
    "huey",
    "uvicorn",
    "whitenoise",
    "django_htmx",
}

NODE = f"""
import sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {ABSENT!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
import importlib.util
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in {ABSENT!r} else real(name, package)
"""


def on_a_node(program: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-c", NODE + program],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "DJANGO_SETTINGS_MODULE": "dalston_site.settings", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_only_the_supervisors_app_is_installed() -> None:
    done = on_a_node(
        "import django; django.setup(); from django.apps import apps; print([a.name for a in apps.get_app_configs()])"
    )
    assert done.stderr == ""
    assert done.stdout == "['dalston_site', 'supervisor']\n"


def test_the_checks_ask_for_redis_and_nothing_else() -> None:
    program = "sys.argv = ['manage.py', 'check']; import manage; manage.main()"
    assert "no issues" in on_a_node(program, REDIS_URL="redis://redis.example:6379/0").stdout
    refused = on_a_node(program)
    assert refused.returncode == 1
    assert "(dalston.E001) REDIS_URL is not set." in refused.stderr
    assert refused.stderr.count("dalston.E") == 1


def test_runsupervisor_loads() -> None:
    done = on_a_node(
        "sys.argv = ['manage.py', 'runsupervisor', '--help']; import manage; manage.main()",
        REDIS_URL="redis://r.example:6379/0",
    )
    assert done.returncode == 0, done.stderr
    assert "--node-id" in done.stdout
