"""The event reader of an orchestrator: reads the events of all queues, acknowledges them after the commit."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import redis
from redis.connection import ConnectionInterface

from dalston_queue.broker.connection.faults import translated
from dalston_queue.broker.connection.shard import Argument, Call, Shard, command, milliseconds, pairs, script
from dalston_queue.broker.connection.topology import Topology
from dalston_queue.broker.errors import Unavailable
from dalston_queue.broker.protocol.keys import EVENT_GROUP, JOBS
from dalston_queue.broker.protocol.messages import Event, Malformed, decode_events

if TYPE_CHECKING:
    from dalston_queue.broker.broker import Broker

REFRESH_S = 1.0  # a new queue's events are read within this


class EventReader:
    """One per orchestrator process; not shared between threads. Events that are read but not acknowledged are read
    again after an error, and taken over by another reader if this process dies: apply events by (attempt, seq)."""

    def __init__(self, broker: Broker, consumer_name: str) -> None:
        self._topology = broker
        self._name = consumer_name
        self._streams: list[_Stream] = []
        self._refreshed = 0.0
        self._reread = True  # after a start or an error: first what this reader got and did not acknowledge
        self._acked_parts: dict[tuple[int, str, str], set[int]] = {}  # of entries with several events
        self._connection: ConnectionInterface | None = None
        self._per_entry = 1.0  # events per entry in the last read: a busy engine reports many in one call

    def read(self, count: int = 200, block_ms: int = 1000) -> list[Event | Malformed]:
        """About `count` events per queue at most, [] after block_ms. Raises Unavailable when Redis is away; the next
        read then returns again what this reader got but has not acknowledged."""
        try:
            self._refresh()
            count = max(1, int(count / self._per_entry))
            if self._reread:
                found = self._read_all("0", count)
                self._reread = False
                if found:
                    return found
            found = self._read_all(">", count)
            if found or block_ms <= 0:
                return found
            return self._block(count, min(block_ms, int(REFRESH_S * 1000)))
        except Unavailable:
            self._reread = True
            self._disconnect()
            raise

    def ack(self, events: Sequence[Event | Malformed]) -> int:
        """After the commit: acknowledge, delete, and clear the tombstones of ended attempts. One script per queue.
        A Malformed is acknowledged once it is dead-lettered. Returns how many entries were still there."""
        by_stream: dict[tuple[int, str, str], list[Argument]] = {}
        for event in events:
            ends = isinstance(event, Event) and event.kind.ends_attempt
            task, attempt = (event.task_id, event.attempt) if ends and isinstance(event, Event) else ("", "")
            arguments = by_stream.setdefault((event.shard, event.stream, event.queue), [EVENT_GROUP])
            arguments += (event.entry_id if self._is_entry_done(event) else "", task, attempt)
        total = 0
        for (index, stream, queue), arguments in by_stream.items():
            shard = self._topology.shards[index]
            for part in _parts(arguments):
                total += shard.run("ack_events", [stream, shard.keys.tasks(queue)], part)
        return total

    def take_over(self, idle_ms: int = 60_000, count: int = 200) -> list[Event | Malformed]:
        """Events that another reader got and did not acknowledge for idle_ms. Call it periodically: each call
        continues at the cursor of the last one."""
        self._refresh()
        found: list[Event | Malformed] = []
        for shard in self._topology.shards:
            streams = [stream for stream in self._streams if stream.shard is shard]
            rest = (EVENT_GROUP, self._name, idle_ms)
            calls = [command("XAUTOCLAIM", each.key, *rest, each.cursor, "COUNT", count) for each in streams]
            for stream, reply in zip(streams, shard.calls(calls), strict=True):
                if not self._is_gone(reply):
                    cursor, rows, *_ = shard.checked(reply)
                    stream.cursor = cursor.decode()
                    found += stream.decode(rows)
        return found

    def close(self) -> None:
        """Leave the groups in which nothing is pending for this reader."""
        self._disconnect()
        for shard in self._topology.shards:
            mine = [stream.key for stream in self._streams if stream.shard is shard]
            shard.calls([script("forget_consumer", [key], [EVENT_GROUP, self._name]) for key in mine])

    def _is_entry_done(self, event: Event | Malformed) -> bool:
        """Whether the entry can go: its events may share it, and it goes when the last of them is acknowledged."""
        if isinstance(event, Malformed) or event.parts == 1:
            return True
        key = (event.shard, event.stream, event.entry_id)
        done = self._acked_parts.setdefault(key, set())
        done.add(event.part)
        if len(done) < event.parts:
            return False
        del self._acked_parts[key]
        return True

    def _refresh(self) -> None:
        """Add new queues, and create again the groups that a flush deleted."""
        if self._streams and not self._reread and time.monotonic() - self._refreshed < REFRESH_S:
            return
        known = {(stream.shard.index, stream.key): stream for stream in self._streams}
        self._streams = []
        for shard in self._topology.shards:
            queues = shard.queues()
            if shard is self._topology.home:
                queues.insert(0, JOBS)
            streams = [_Stream(shard, queue) for queue in queues]
            made = shard.readable([script("ensure_group", [stream.key], [EVENT_GROUP]) for stream in streams])
            there = [stream for stream, reply in zip(streams, made, strict=True) if reply is not None]
            self._streams += [known.get((shard.index, stream.key), stream) for stream in there]
        self._refreshed = time.monotonic()

    def _read_all(self, after: str, count: int) -> list[Event | Malformed]:
        found: list[Event | Malformed] = []
        for shard in self._topology.shards:
            streams = [stream for stream in self._streams if stream.shard is shard]
            calls = [Call(stream.key, _xreadgroup(self._name, count, None, [stream], after)) for stream in streams]
            for stream, reply in zip(streams, shard.calls(calls), strict=True):
                found += self._rows([stream], reply)
        return found

    def _block(self, count: int, block_ms: int) -> list[Event | Malformed]:
        """There is no event: block on the streams of the home server, or in a cluster on the first of them."""
        home = self._topology.home
        streams = [stream for stream in self._streams if stream.shard is home]
        if home.keys.cluster:
            streams = streams[:1]
        if len(self._topology.shards) > 1 or home.keys.cluster:
            block_ms = min(block_ms, 50)  # the other servers are polled in between
        with translated(home.name):
            if self._connection is None:
                self._connection = home.connection(streams[0].key)
            self._connection.send_command(*_xreadgroup(self._name, count, block_ms, streams, ">"))
            try:
                reply = self._connection.read_response(timeout=block_ms / 1000 + 5)
            except redis.ResponseError as error:
                reply = error
        return self._rows(streams, reply)

    def _rows(self, streams: Sequence[_Stream], reply: Any) -> list[Event | Malformed]:
        if self._is_gone(reply):
            return []
        found = streams[0].shard.checked(reply) or ()
        by_key = {stream.key.encode(): stream for stream in streams}
        events = [event for key, rows in found for event in by_key[key].decode(rows)]
        if events:
            self._per_entry = max(1.0, len(events) / sum(len(rows) for _, rows in found))
        return events

    def _is_gone(self, reply: Any) -> bool:
        """Whether the stream was deleted, flushed or replaced: the next read creates its group again, or skips it."""
        gone = isinstance(reply, redis.ResponseError) and str(reply).startswith(("NOGROUP", "UNBLOCKED", "WRONGTYPE"))
        self._reread = self._reread or gone
        return gone

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.disconnect()
            self._connection = None


def clear_tombstones(topology: Topology, queue: str, ended: Iterable[tuple[str, int]]) -> None:
    """Delete the tombstones of attempts (task, attempt) whose events got lost, so that no ack deletes them. A record
    that is no tombstone, or of another attempt, is left alone."""
    arguments: list[Argument] = [EVENT_GROUP]
    for task, attempt in ended:
        arguments += ("", task, attempt)
    for shard in topology.shards_of(queue):
        for part in _parts(arguments):
            shard.run("ack_events", [shard.keys.events(queue), shard.keys.tasks(queue)], part)


def forget_idle_readers(topology: Topology, idle_ms: int = 3_600_000) -> int:
    """Remove readers that have not read for an hour and hold nothing: orchestrators that were killed. A reader that
    comes back is created by its next read. Returns how many were removed, counted per stream."""
    forgotten = 0
    for shard in topology.shards:
        queues = shard.queues()
        keys = [shard.keys.events(queue) for queue in ([JOBS, *queues] if shard is topology.home else queues)]
        for key, consumers in zip(
            keys, shard.calls([command("XINFO", "CONSUMERS", key, EVENT_GROUP) for key in keys]), strict=True
        ):
            if isinstance(consumers, redis.ResponseError):
                continue  # no such stream or group
            for flat in consumers:
                reader = dict(pairs(flat))
                if reader[b"idle"] >= idle_ms and reader[b"pending"] == 0:
                    forgotten += shard.run("forget_consumer", [key], [EVENT_GROUP, reader[b"name"]]) == 0
    return forgotten


def oldest_event_ms(topology: Topology) -> int:
    """How long the oldest event of all queues has waited to be applied; 0 if there is none. One round trip per server,
    one command per queue: an applied event leaves its stream, so the first entry is the oldest."""
    oldest = 0
    for shard in topology.shards:
        queues = shard.queues()
        keys = [shard.keys.events(queue) for queue in ([JOBS, *queues] if shard is topology.home else queues)]
        time_, *pages = shard.readable([shard.clock, *[command("XRANGE", key, "-", "+", "COUNT", 1) for key in keys]])
        now_ms = milliseconds(time_)
        firsts = [int(entry_id.partition(b"-")[0]) for page in pages if page for entry_id, _ in page]
        oldest = max([oldest, *(now_ms - first_ms for first_ms in firsts)])
    return oldest


class _Stream:
    def __init__(self, shard: Shard, queue: str) -> None:
        self.shard = shard
        self.queue = queue
        self.key = shard.keys.events(queue)
        self.cursor = "0-0"

    def decode(self, rows: Sequence[Any]) -> list[Event | Malformed]:
        return [
            event
            for entry_id, fields in rows
            if fields is not None
            for event in decode_events(self.queue, self.key, self.shard.index, entry_id.decode(), fields)
        ]


def _xreadgroup(
    name: str, count: int, block_ms: int | None, streams: Sequence[_Stream], after: str
) -> tuple[Argument, ...]:
    block = ("BLOCK", block_ms) if block_ms is not None else ()
    keys = [stream.key for stream in streams]
    return ("XREADGROUP", "GROUP", EVENT_GROUP, name, "COUNT", count, *block, "STREAMS", *keys, *([after] * len(keys)))


def _parts(arguments: list[Argument], limit: int = 500) -> list[list[Argument]]:
    """The arguments of ack_events, for at most `limit` events per script."""
    head, rest = arguments[:1], arguments[1:]
    return [head + rest[i : i + 3 * limit] for i in range(0, len(rest), 3 * limit)]
