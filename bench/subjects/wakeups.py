"""Wake-ups: how many of many idle engines one append wakes. Waking all would cost each task a script per engine."""

import threading
import time

from bench.harness.figures import Section, Target
from bench.harness.servers import BenchServer
from bench.peers.dalston import NO_LIMIT, QUEUE, message
from dalston_queue.broker import Consumer, connect
from dalston_queue.broker.protocol.messages import Completed

SCRIPTS = ("evalsha", "eval", "fcall", "evalsha_ro")


def wakeups(server: BenchServer, *, engines: int, appends: int) -> Section:
    server.flush()
    stop = threading.Event()
    started = threading.Semaphore(0)
    broker = connect(server.url)
    consumers = [
        Consumer(broker, f"bench.idle.{number}.1", [QUEUE], capacity=1, max_backlog=NO_LIMIT)
        for number in range(engines)
    ]

    def engine(consumer: Consumer) -> None:
        while not stop.is_set():
            claimed = consumer.exchange().claimed
            while claimed:
                for _ in claimed:
                    started.release()
                claimed = consumer.exchange([(task, Completed()) for task in claimed]).claimed
            consumer.wait(60.0)

    threads = [threading.Thread(target=engine, args=(consumer,), daemon=True) for consumer in consumers]
    for consumer in consumers:
        consumer.open()
    for thread in threads:
        thread.start()
    _settle_down(server)

    idle = _scripts(server, 1.0)
    server.reset_calls()
    begin = time.monotonic()
    for _ in range(appends):
        broker.append([message(0)])
        started.acquire(timeout=5)
        time.sleep(0.01)
    elapsed = time.monotonic() - begin
    calls = server.calls()
    # One script is the append, one settles; what idle engines call anyway is not caused by the append.
    scripts = sum(calls.get(name, 0) for name in SCRIPTS) - idle * elapsed
    stop.set()
    broker.append([message(0) for _ in range(engines)])
    for thread in threads:
        thread.join(timeout=2)
    broker.close()
    server.flush()

    each = scripts / appends
    return Section(
        f"{engines} idle engines, {appends} appends one by one",
        ["", "scripts per task", "scripts per second when idle"],
        [["dalston", f"{each:.1f}", f"{idle:.0f}"]],
        [Target(f"one append wakes a few, not all: {each:.1f} scripts per task (target under 6)", each < 6)],
    )


def _settle_down(server: BenchServer) -> None:
    for _ in range(50):
        blocked = int(server.info("clients")["blocked_clients"])
        time.sleep(0.05)
        if blocked and blocked == int(server.info("clients")["blocked_clients"]):
            return


def _scripts(server: BenchServer, seconds: float) -> float:
    server.reset_calls()
    time.sleep(seconds)
    calls = server.calls()
    return sum(calls.get(name, 0) for name in SCRIPTS) / seconds
