"""Runs actions at the same moment, each in a thread with a database connection of its own."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from django.db import connections

Result = TypeVar("Result")


def at_once(*actions: Callable[[], Result]) -> list[Result]:
    """Their results, in this order. Raises what an action raised."""
    start = threading.Barrier(len(actions))

    def run(action: Callable[[], Result]) -> Result:
        start.wait()
        try:
            return action()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(actions)) as pool:
        return list(pool.map(run, actions))
