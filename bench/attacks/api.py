"""Attacks by an ordinary token of a project of its own, which may read and submit."""

import itertools
import json
import secrets
import socket
import threading
import time
from contextlib import suppress
from typing import Any

from bench.attacks import Target, done, side_by_side

BATCH = "/api/v1/jobs:batch"


def capability_sets(target: Target) -> None:
    """Tasks of the queue that all use, each with a combination of capabilities of its own."""
    client = target.client()
    for number in itertools.count():
        task = {"task_type": "echo", "required_capabilities": [f"c{number}"]}
        client.call("POST", "/api/v1/tasks", task)


def fresh_queues(target: Target) -> None:
    """Batches of 1 000 jobs, each with a stage of a name that was never used."""
    client = target.client()
    while True:
        head = secrets.token_hex(6)
        jobs = [{"name": "x", "stages": [{"stage": f"s{head}-{number}"}]} for number in range(1000)]
        client.call("POST", BATCH, {"jobs": jobs})


def large_jobs(target: Target) -> None:
    """Batches of as many stages as a batch may have, in the queue that all use."""
    stages = [{"stage": f"s{number}", "queue": "echo"} for number in range(200)]
    body = json.dumps({"jobs": [{"name": "large", "stages": stages}] * 50}).encode()
    client = target.client()
    while True:
        client.call("POST", BATCH, body)


def large_results(target: Target) -> None:
    """Jobs whose first task has a result of 250 KB, which 199 others get as an input."""
    stages: list[dict[str, Any]] = [{"stage": "first", "queue": "echo", "parameters": {"x": "a" * 250_000}}]
    stages += [{"stage": f"s{number}", "queue": "echo", "after": ["first"]} for number in range(199)]
    client = target.client()
    while True:
        client.call("POST", "/api/v1/jobs", {"name": "wide", "stages": stages})


def large_payloads(target: Target) -> None:
    """Tasks of 250 KB each in many queues that no engine serves."""
    client = target.client()
    for number in itertools.count():
        task = {"task_type": "x", "stage": f"idle{number % 90}", "parameters": {"x": "a" * 250_000}}
        client.call("POST", "/api/v1/tasks", task)


def hanging_webhooks(target: Target) -> None:
    """Jobs with a receiver that takes the connection and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as receiver:
        held: list[socket.socket] = []

        def accept() -> None:
            while True:
                held.append(receiver.accept()[0])
                done["called"] += 1

        threading.Thread(target=accept, daemon=True).start()
        url = f"http://127.0.0.1:{receiver.getsockname()[1]}/"
        client = target.client()
        while True:
            client.call("POST", "/api/v1/tasks", {"task_type": "echo", "callback_url": url})


def searches(target: Target) -> None:
    """20 searches at a time for a field that no task has."""
    clients = [target.client() for _ in range(20)]
    side_by_side(20, lambda number: _search(clients[number]))


def _search(client: Any) -> None:
    client.call("GET", f"/api/v1/tasks?payload=unknown.{secrets.token_hex(3)}:1")


def streams_and_waits(target: Target) -> None:
    """500 event streams and 500 waits of one job that never starts."""
    client = target.client()
    _, body = client.call("POST", "/api/v1/tasks", {"task_type": "idle"})
    task = json.loads(body)
    authorised = f"Authorization: Bearer {target.token}\r\n\r\n"
    paths = [f"/api/v1/jobs/{task['job_id']}/events", f"/api/v1/tasks/{task['task_id']}?wait=30"]

    def hold(number: int) -> None:
        with suppress(OSError), socket.create_connection(("127.0.0.1", target.port), timeout=60) as connection:
            connection.sendall(f"GET {paths[number % 2]} HTTP/1.1\r\nHost: localhost\r\n{authorised}".encode())
            status = connection.recv(65_536)[9:12]
            if status == b"200":
                done["held"] += 1
                while connection.recv(65_536):
                    pass
        time.sleep(1)

    side_by_side(1000, hold)


def repeated_cancels(target: Target) -> None:
    clients = [target.client() for _ in range(8)]
    _, body = clients[0].call("POST", "/api/v1/tasks", {"task_type": "idle"})
    path = f"/api/v1/tasks/{json.loads(body)['task_id']}"
    side_by_side(8, lambda number: _ignore(clients[number].call("DELETE", path)))


def many_requests(target: Target) -> None:
    """64 connections that read and submit as fast as they are answered."""
    clients = [target.client() for _ in range(64)]

    def act(number: int) -> None:
        clients[number].call("POST", "/api/v1/tasks", {"task_type": "idle"})
        for _ in range(3):
            clients[number].call("GET", "/api/v1/tasks?limit=100")

    side_by_side(64, act)


def large_batches(target: Target) -> None:
    """Batches of 16 MiB that are JSON of the worst kind: 1 000 jobs with payloads of 16 KB."""
    job = {"name": "x", "stages": [{"stage": "idle", "parameters": {"x": ["a"] * 3000}}]}
    body = json.dumps({"jobs": [job] * 1000})
    clients = [target.client() for _ in range(4)]
    side_by_side(4, lambda number: _ignore(clients[number].call("POST", BATCH, body.encode())))


def fresh_keys(target: Target) -> None:
    """Tasks with an idempotency key each, which are cancelled at once: what stays are the keys."""
    client = target.client()
    while True:
        key = secrets.token_hex(90)
        _, body = client.call("POST", "/api/v1/tasks", {"task_type": "idle", "idempotency_key": key})
        with suppress(ValueError, KeyError):
            client.call("DELETE", f"/api/v1/tasks/{json.loads(body)['task_id']}")


def distinct_keys(target: Target) -> None:
    """Tasks in the queue that all use, each with a concurrency key of its own."""
    client, numbers = target.client(), itertools.count()
    while True:
        stages = [{"stage": f"s{each}", "queue": "echo", "concurrency_key": str(next(numbers))} for each in range(200)]
        client.call("POST", BATCH, {"jobs": [{"name": "keys", "stages": stages}]})


def uploads(target: Target) -> None:
    """Recordings of 8 MB of noise, no two of which are the same: what they fill is the disk."""
    clients = [target.client() for _ in range(4)]
    head = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
    kind = {"Content-Type": "multipart/form-data; boundary=x"}

    def send(number: int) -> None:
        body = head + secrets.token_bytes(8_000_000) + b"\r\n--x--\r\n"
        clients[number].call("POST", "/v1/audio/transcriptions", body, **kind)

    side_by_side(4, send)


READS = (
    "/api/v1/jobs?limit=200", "/api/v1/jobs?error=x", "/api/v1/jobs?name=y&payload=a.b:1", "/api/v1/tasks?limit=200",
    "/api/v1/tasks?task_type=none&payload=user.id:8", "/api/v1/queue/stats", "/api/v1/streams?limit=200",
    "/api/v1/dead-letters?limit=200", "/api/v1/audio/transcriptions?limit=200", "/api/v1/jobs?format=csv&limit=200",
    "/api/v1/models", "/api/v1/openapi.json",
)  # fmt: skip


def slow_reads(target: Target) -> None:
    """The reads of the API that cost the most, 32 at a time."""
    clients, paths = [target.client() for _ in range(32)], itertools.cycle(READS)
    side_by_side(32, lambda number: _ignore(clients[number].call("GET", next(paths))))


def _ignore(_: object) -> None:
    pass
