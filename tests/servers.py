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
    """The first hook of all: pytest-django reads the settings inside the `yield`."""
    private = os.environ.get("DALSTON_TEST_SERVERS") != "mine" and not _only_hands_out(early_config)
    for name in [name for name in os.environ if name.startswith("DALSTON_")]:
        del os.environ[name]  # what a developer has set for other purposes must not change a test
    os.environ["DALSTON_DEV"] = "1"
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Started in the background of a script: what the tests start would inherit it, and no Ctrl-C would reach it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if private:
        _start()
    yield


def _only_hands_out(config: pytest.Config) -> bool:
    """The process of `pytest -n 3` that runs no test itself: each of those that do has servers of its own."""
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
    """Leave the slow ones out, visibly, unless they are asked for: by --slow, or by name on the command line."""
    if config.getoption("--slow") or any("::" in argument for argument in config.args):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if not item.get_closest_marker("slow")]
