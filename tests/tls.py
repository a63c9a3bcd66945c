"""Certificates for tests, and a TLS server of which only the certificate is of interest."""

import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.support import need_tool


def self_signed(folder: Path, name: str = "localhost") -> tuple[Path, Path]:
    """Key and certificate, in files."""
    key, certificate = folder / "tls.key", folder / "tls.crt"
    argv = [need_tool("openssl"), "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
    argv += ["-addext", f"subjectAltName=DNS:{name}", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(argv, check=True, capture_output=True)
    return key, certificate


@contextmanager
def tls_server(folder: Path) -> Iterator[tuple[int, Path]]:
    """Its port and its certificate. Every answer is 501."""
    key, certificate = self_signed(folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server.server_port, certificate
    server.shutdown()
    server.server_close()
