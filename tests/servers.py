"""A pytest plugin (`-p tests.servers`) that starts a private Postgres and Valkey before Django's settings are read.

`DALSTON_TEST_SERVERS=mine` uses the servers in DATABASE_URL and REDIS_URL instead.
"""

import atexit
import os
import shutil
import signal
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

from dalston_site.embedded.postgres import Postgres
from dalston_site.embedded.server import Recipe, Server
from dalston_site.embedded.valkey import Valkey


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None]:
    """The first hook: pytest-django reads the settings inside the `yield`."""
    private = os.environ.get("DALSTON_TEST_SERVERS") != "mine" and not _runs_no_test(early_config)
    for name in [name for name in os.environ if name.startswith("DALSTON_")]:
        del os.environ[name]  # a developer's settings must not change a test
    os.environ["DALSTON_DEV"] = "1"
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Started in the background of a script: processes of the tests would inherit it and ignore Ctrl-C.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if private:
        _start()
    yield


def _runs_no_test(config: pytest.Config) -> bool:
    """True in the main process of `pytest -n 3`: its workers have servers of their own."""
    return "PYTEST_XDIST_WORKER" not in os.environ and bool(config.known_args_namespace.numprocesses)


def _start() -> None:
    folder = Path(tempfile.mkdtemp(prefix="dalston-tests-"))
    # Not pytest_unconfigure: a conftest that fails to import ends the run without it. Last registered, first run.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    recipes: dict[str, Recipe] = {
        "DATABASE_URL": Postgres(folder / "postgres", fast=True),
        "REDIS_URL": Valkey(folder / "valkey", {"appendonly": "no"}),
    }
    for variable, recipe in recipes.items():
        server = Server(recipe, folder)
        atexit.register(server.stop)
        os.environ[variable] = server.url


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests marked slow, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselects slow tests, unless --slow or their name is on the command line."""
    if config.getoption("--slow") or any("::" in argument for argument in config.args):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if not item.get_closest_marker("slow")]
