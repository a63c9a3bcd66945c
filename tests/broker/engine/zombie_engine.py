"""An engine process for test_zombie.py: claims one task, waits for a file to appear, settles, prints the answer."""

import sys
import time
from pathlib import Path

from dalston_queue.broker import Consumer, connect
from dalston_queue.broker.errors import Fenced
from dalston_queue.broker.protocol.messages import Completed


def main(url: str, prefix: str, signal_file: str) -> None:
    consumer = Consumer(connect(url, prefix=prefix), "zombie", ["echo"])
    consumer.open()
    (claimed,) = consumer.claim()
    print(f"claimed {claimed.task_id}", flush=True)
    while not Path(signal_file).exists():
        time.sleep(0.01)
    try:
        consumer.exchange([(claimed, Completed("from the zombie"))])
        print("settled", flush=True)
    except Fenced as error:
        print(f"fenced: {error}; holds {consumer.held}", flush=True)


main(*sys.argv[1:])
