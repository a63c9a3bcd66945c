"""`python -m bench.attacks NAME PROOF < TARGET`: one attack without end, at the lowest priority of the processor.

An attacker has a machine of its own; here it must not take the processor from what it attacks. It ends with its input,
or when it fails, prints `begun` when it has done what proves that it attacks, and at the end all that it has done.
"""

import json
import os
import sys
import threading
import time
import traceback
from typing import cast

from bench.attacks import Attack, Target, api, done, keys, pages, sockets

MODULES = {module.__name__.rpartition(".")[2]: module for module in (api, keys, pages, sockets)}


BEGIN_TIMEOUT_S = 30.0


def main(name: str, proof: str) -> None:
    os.nice(19)
    module, _, function = name.partition(".")
    attack = cast(Attack, getattr(MODULES[module], function))
    target = Target(**json.loads(sys.stdin.readline()))

    def run() -> None:
        try:
            attack(target)
        except BaseException:  # noqa: BLE001 - the process ends with it
            traceback.print_exc()
        os._exit(1)

    threading.Thread(target=run, daemon=True).start()
    end = time.monotonic() + BEGIN_TIMEOUT_S
    while not done[proof] and time.monotonic() < end:
        time.sleep(0.02)
    print("begun", flush=True)
    sys.stdin.read()
    print(json.dumps(dict(done)), flush=True)
    os._exit(0)  # hundreds of threads may hold connections


if __name__ == "__main__":
    main(*sys.argv[1:])
