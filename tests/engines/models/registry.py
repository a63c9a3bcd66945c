"""A registry of npm and PyPI on loopback, for the real clients. It counts, alters and holds back what it serves."""

import io
import json
import tarfile
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

NPM, WHEEL = "@test/model", "test_tokenizer-1.0-py3-none-any.whl"


def tarball(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        manifest = json.dumps({"name": NPM, "version": "1.0.0"}).encode()
        for name, content in {"package/package.json": manifest, **files}.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return buffer.getvalue()


def wheel(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    metadata = {
        "test_tokenizer-1.0.dist-info/METADATA": b"Metadata-Version: 2.1\nName: test-tokenizer\nVersion: 1.0\n",
        "test_tokenizer-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "test_tokenizer-1.0.dist-info/RECORD": b"",
    }
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in {**files, **metadata}.items():
            archive.writestr(name, content)
    return buffer.getvalue()


class Registry:
    """Serves one package of each kind. `asked` names every archive that was requested."""

    def __init__(self, npm: bytes, pypi: bytes) -> None:
        self.archives = {"model-1.0.0.tgz": npm, WHEEL: pypi}
        self.asked: list[str] = []
        self.gates: dict[str, threading.Event] = {}  # an archive is held back until its gate is set
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                registry.answer(self)

            def log_message(self, *_: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for gate in self.gates.values():
            gate.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def environment(self) -> dict[str, str]:
        """For the clients: their own variables."""
        return {"npm_config_registry": self.url, "PIP_INDEX_URL": f"{self.url}/simple", "PIP_CONFIG_FILE": "/dev/null"}

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        name = request.path.rpartition("/")[2]
        if name in self.archives:
            self.asked.append(name)
            if gate := self.gates.get(name):
                gate.wait(60)
            return send(request, "application/octet-stream", self.archives[name])
        if request.path.startswith("/simple/"):
            page = f'<!DOCTYPE html><html><body><a href="/files/{WHEEL}">{WHEEL}</a></body></html>'
            return send(request, "text/html", page.encode())
        versions = {"1.0.0": {"name": NPM, "version": "1.0.0", "dist": {"tarball": f"{self.url}/model-1.0.0.tgz"}}}
        document = {"name": NPM, "dist-tags": {"latest": "1.0.0"}, "versions": versions}
        return send(request, "application/json", json.dumps(document).encode())


def send(request: BaseHTTPRequestHandler, kind: str, content: bytes) -> None:
    request.send_response(200)
    request.send_header("Content-Type", kind)
    request.send_header("Content-Length", str(len(content)))
    request.end_headers()
    try:
        request.wfile.write(content)
    except OSError:
        return  # the client was killed
