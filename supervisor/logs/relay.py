"""The relay process between engines and supervisor: it always reads what engines write, so that no engine waits.

Output that the supervisor does not read, because it is busy or stopped, is dropped and counted; the last part is kept,
because the last lines of a process matter most. Run as `python -I -S relay.py FD`, where FD is a SOCK_SEQPACKET socket.
Its commands:

    +ID with two descriptors    copy from the first pipe to the second
    -ID                         close both; the reply is `ID`, a line end, and the bytes that were not passed on
    ?                           a ping; the reply is `!`

It imports little of the standard library, to stay small: each node always runs one. After the end of the supervisor it
reads on until the last engine has ended, and ends too.
"""

from __future__ import annotations

import array
import fcntl
import os
import select
import socket
import sys
import termios

READ_BYTES = 64 << 10
TAIL_BYTES = 48 << 10  # kept of dropped output
ROUNDS = 64  # reads of one engine before the next engine
RETRY_S = 0.02
NOTHING = os.open("/dev/null", os.O_WRONLY)


class Channel:
    """Output of one engine: `kept` is sent next, then `lost` bytes are missing, then comes `tail`."""

    def __init__(self, source: int, sink: int) -> None:
        self.source = source
        self.sink = sink
        self.kept = b""
        self.lost = 0
        self.tail = b""

    @property
    def stalled(self) -> bool:
        return bool(self.kept or self.tail)

    def move(self) -> bool:
        """Reads what the engine has written and sends what fits. False: the engine has closed its end."""
        for _ in range(ROUNDS):
            ready = self.deliver()
            try:
                data = os.read(self.source, READ_BYTES) if ready else self.swallow()
            except BlockingIOError:
                return True
            if not data:
                return False
            if not ready:
                return True
            self.kept = data
        return True

    def deliver(self) -> bool:
        """False: the sink is full. After a loss the sink has to be empty first: one gap is better than many."""
        try:
            if self.kept:
                self.kept = self.kept[os.write(self.sink, self.kept) :]
            if self.tail and not self.kept and not (self.lost and waiting(self.sink)):
                self.kept, self.lost, self.tail = with_mark(self.lost, self.tail), 0, b""
                self.kept = self.kept[os.write(self.sink, self.kept) :]
        except BlockingIOError:
            pass
        except OSError:  # the supervisor is gone
            self.kept, self.lost, self.tail = b"", 0, b""
        return not self.stalled

    def swallow(self) -> bytes:
        """Reads all that the engine wrote, so that it need not wait, and drops all but the last part."""
        excess = waiting(self.source) - TAIL_BYTES
        if excess > 0:
            self.lost += len(self.tail) + os.splice(self.source, NOTHING, excess)
            self.tail = b""
        data = os.read(self.source, TAIL_BYTES)
        both = self.tail + data
        self.tail = both[-TAIL_BYTES:]
        self.lost += len(both) - len(self.tail)
        return data

    def close(self) -> None:
        os.close(self.source)
        os.close(self.sink)


def with_mark(lost: int, tail: bytes) -> bytes:
    """The output after a loss, from its first whole line on. Into an empty pipe the mark is written in one piece."""
    if not lost:
        return tail
    torn = tail.find(b"\n") + 1
    return mark(lost + torn) + tail[torn:]


def mark(lost: int) -> bytes:
    """Ends the torn line before it; the intake replaces that line by a note."""
    return b"\n\0%d\n" % lost


def waiting(pipe: int) -> int:
    """Bytes in a pipe."""
    answer = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, answer)
    return answer[0]


class Relay:
    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.supervised = True
        self.channels: dict[bytes, Channel] = {}
        self.by_source: dict[int, Channel] = {}  # that may have more
        self.poll = select.epoll()
        self.poll.register(control, select.EPOLLIN)

    def run(self) -> None:
        while self.supervised or self.by_source:
            stalled = [fd for fd, channel in self.by_source.items() if channel.stalled]
            ready = [fd for fd, _ in self.poll.poll(RETRY_S if stalled else None)]
            if self.control.fileno() in ready:
                self.receive()
            for fd in {*ready, *stalled} & self.by_source.keys():
                if not self.by_source[fd].move():
                    self.forget(fd)

    def receive(self) -> None:
        try:
            message, descriptors, _, _ = socket.recv_fds(self.control, 1024, 2)
        except ConnectionError:  # the supervisor was killed with a reply unread
            message, descriptors = b"", []
        name = message[1:]
        if not message:
            self.poll.unregister(self.control)
            self.supervised = False
        elif message[:1] == b"?":
            self.reply(b"!")
        elif message[:1] == b"+" and len(descriptors) == 2:
            channel = self.channels[name] = self.by_source[descriptors[0]] = Channel(*descriptors)
            self.poll.register(channel.source, select.EPOLLIN)
        elif message[:1] == b"-" and name in self.channels:
            channel = self.channels.pop(name)
            self.forget(channel.source)
            self.reply(name + b"\n" + channel.kept + with_mark(channel.lost, channel.tail))
            channel.close()

    def reply(self, answer: bytes) -> None:
        try:
            self.control.send(answer)
        except ConnectionError:
            return  # the supervisor was killed: the next receive() notices

    def forget(self, source: int) -> None:
        if self.by_source.pop(source, None) is not None:
            self.poll.unregister(source)


if __name__ == "__main__":
    Relay(socket.socket(fileno=int(sys.argv[1]))).run()
