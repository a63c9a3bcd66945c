"""One process of one pipeline: `python -m bench.pipelines.run NAME prepare | work | submit COUNT`.

`submit` waits for a line on standard input, so that its start-up is not measured, and says when it is done.
"""

import importlib
import sys
import time
from typing import cast

from bench.pipelines import Pipeline


def main(name: str, action: str, count: str = "0") -> None:
    pipeline = cast(Pipeline, importlib.import_module(f"bench.pipelines.{name}"))
    if action == "prepare":
        pipeline.prepare()
    elif action == "work":
        pipeline.work()
    elif action == "submit":
        pipeline.submit(1)  # opens the connections, and shows that the worker answers
        print("ready", flush=True)
        sys.stdin.readline()
        begin = time.monotonic()
        pipeline.submit(int(count))
        print(time.monotonic() - begin, flush=True)
        sys.stdin.readline()  # its CPU time is read before it may go


if __name__ == "__main__":
    main(*sys.argv[1:])
