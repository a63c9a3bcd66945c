"""A mail server of the standard library for tests: takes each mail, and keeps its text."""

import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Mailbox:
    port: int = 0
    mails: list[str] = field(default_factory=list)
    recipients: list[str] = field(default_factory=list)
    refuses: bool = False
    delay_s: float = 0.0  # before each answer


@contextmanager
def mail_server() -> Iterator[Mailbox]:
    box = Mailbox()

    class Handler(socketserver.StreamRequestHandler):
        def say(self, line: str) -> None:
            time.sleep(box.delay_s)
            self.wfile.write(f"{line}\r\n".encode())

        def handle(self) -> None:
            self.say("220 test")
            while line := self.rfile.readline().decode().strip():
                word = line.split()[0].upper()
                if word == "DATA" and not box.refuses:
                    self.say("354 go on")
                    box.mails.append(self.text())
                elif word == "DATA":
                    self.say("451 not now")
                    continue
                elif word == "RCPT":
                    box.recipients.append(line)
                elif word == "QUIT":
                    self.say("221 bye")
                    return
                self.say("250 ok")

        def text(self) -> str:
            lines: list[str] = []
            while (line := self.rfile.readline().decode().rstrip("\r\n")) != ".":
                lines.append(line)
            return "\n".join(lines)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        box.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield box
        finally:
            server.shutdown()
            thread.join()
