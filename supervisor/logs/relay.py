"""A small process between the engines' output and the log: it always takes what an engine writes, so no engine waits.

What the supervisor has no room for, because it is busy or stopped, is dropped and counted; the last part is kept, since
last words matter most. Run as `python -I -S relay.py FD`, where FD is a SOCK_SEQPACKET socket. Its commands:

    +ID with two descriptors    take from the first (a pipe's end), give to the second
    -ID                         let go; the answer is `ID` and, behind a line end, what is not given yet
    ?                           the answer is `!`: it is alive

It uses the standard library alone and as little of it as it can: it is there once per node, for as long as the node is.
When the supervisor is gone it goes on taking until the last engine has ended, and ends too.
"""

from __future__ import annotations

import array
import fcntl
import os
import select
import socket
import sys
import termios

READ = 64 << 10
KEPT = 48 << 10  # the last part of what is dropped stays
ROUNDS = 64  # of one engine, before the next has its turn
RETRY_S = 0.02
NOTHING = os.open("/dev/null", os.O_WRONLY)


class Line:
    """The output of one engine on its way: `kept` goes next, then `lost` bytes are missing, then comes `tail`."""

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
        """Takes what the engine has written, and gives what there is room for. False: the engine has closed its end."""
        for _ in range(ROUNDS):
            ready = self.deliver()
            try:
                data = os.read(self.source, READ) if ready else self.swallow()
            except BlockingIOError:
                return True
            if not data:
                return False
            if not ready:
                return True
            self.kept = data
        return True

    def deliver(self) -> bool:
        """False: there is no room. After a loss the sink has to be empty first: one gap is better than many."""
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
        """The engine must not wait: all that it wrote is taken, and all but the last part of it dropped."""
        excess = waiting(self.source) - KEPT
        if excess > 0:
            self.lost += len(self.tail) + os.splice(self.source, NOTHING, excess)
            self.tail = b""
        data = os.read(self.source, KEPT)
        both = self.tail + data
        self.tail = both[-KEPT:]
        self.lost += len(both) - len(self.tail)
        return data

    def close(self) -> None:
        os.close(self.source)
        os.close(self.sink)


def with_mark(lost: int, tail: bytes) -> bytes:
    """What follows a loss, from its first whole line on; in an empty pipe the mark can't be read in two halves."""
    if not lost:
        return tail
    torn = tail.find(b"\n") + 1
    return mark(lost + torn) + tail[torn:]


def mark(lost: int) -> bytes:
    """Ends the torn line before it; the reader leaves that line out and says what is missing."""
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
        self.lines: dict[bytes, Line] = {}
        self.by_source: dict[int, Line] = {}  # those that may have more
        self.poll = select.epoll()
        self.poll.register(control, select.EPOLLIN)

    def run(self) -> None:
        while self.supervised or self.by_source:
            stalled = [fd for fd, line in self.by_source.items() if line.stalled]
            ready = [fd for fd, _ in self.poll.poll(RETRY_S if stalled else None)]
            if self.control.fileno() in ready:
                self.hear()
            for fd in {*ready, *stalled} & self.by_source.keys():
                if not self.by_source[fd].move():
                    self.forget(fd)

    def hear(self) -> None:
        try:
            message, descriptors, _, _ = socket.recv_fds(self.control, 1024, 2)
        except ConnectionError:  # it was killed with an answer of ours unread
            message, descriptors = b"", []
        name = message[1:]
        if not message:
            self.poll.unregister(self.control)
            self.supervised = False
        elif message[:1] == b"?":
            self.say(b"!")
        elif message[:1] == b"+" and len(descriptors) == 2:
            line = self.lines[name] = self.by_source[descriptors[0]] = Line(*descriptors)
            self.poll.register(line.source, select.EPOLLIN)
        elif message[:1] == b"-" and name in self.lines:
            line = self.lines.pop(name)
            self.forget(line.source)
            self.say(name + b"\n" + line.kept + with_mark(line.lost, line.tail))
            line.close()

    def say(self, answer: bytes) -> None:
        try:
            self.control.send(answer)
        except ConnectionError:
            return  # killed: that is heard with the next look

    def forget(self, source: int) -> None:
        if self.by_source.pop(source, None) is not None:
            self.poll.unregister(source)


if __name__ == "__main__":
    Relay(socket.socket(fileno=int(sys.argv[1]))).run()
