"""`python -m bench.attacks NAME < TARGET`: one attack without end, at the lowest priority of this machine's processor.

An attacker has a machine of its own; here it must not take the processor from what it attacks. It ends with its input.
"""

import json
import os
import sys
import threading
from typing import cast

from bench.attacks import Attack, Target, api, keys, pages, sockets

MODULES = {module.__name__.rpartition(".")[2]: module for module in (api, keys, pages, sockets)}


def main(name: str) -> None:
    os.nice(19)
    module, _, function = name.partition(".")
    attack = cast(Attack, getattr(MODULES[module], function))
    target = Target(**json.loads(sys.stdin.readline()))
    threading.Thread(target=attack, args=[target], daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv[1])
