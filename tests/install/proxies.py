"""Real proxies with the files of deploy/proxy: nginx and Caddy of Debian, with TLS, before a web process."""

from __future__ import annotations

import os
import re
import socket
import subprocess
from pathlib import Path

from tests.conftest import ROOT
from tests.support import Spawned, need_tool, reserve_port, wait_until

FILES = {"nginx": ROOT / "deploy/proxy/nginx.conf", "caddy": ROOT / "deploy/proxy/Caddyfile"}
NAME = "dalston.example.com"
MAIN = """daemon off; pid {folder}/pid; error_log stderr; worker_processes 1;{user}
events {{ worker_connections 1024; }}
http {{
    access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
    include {folder}/site.conf;
}}
"""


class Proxy:
    """One of them on ports of its own. `text` is the file of deploy/proxy, with this machine's names and ports."""

    def __init__(self, kind: str, folder: Path, web_port: int, certificate: Path, key: Path) -> None:
        self.kind, self.folder = kind, folder
        self.certificate = certificate
        self.plain, self.tls = reserve_port(), reserve_port()
        self.url = f"https://localhost:{self.tls}"
        text = FILES[kind].read_text()
        for old, new in (
            ("listen 80;", f"listen 127.0.0.1:{self.plain};"),
            ("listen 443 ssl http2;", f"listen 127.0.0.1:{self.tls} ssl http2;"),
            ("/etc/ssl/dalston/cert.pem;", f"{certificate};"),
            ("/etc/ssl/dalston/key.pem;", f"{key};"),
            ("127.0.0.1:8000", f"127.0.0.1:{web_port}"),
            (f"{NAME} {{", f"localhost:{self.tls}, 127.0.0.1:{self.tls} {{\n\ttls {certificate} {key}"),
            (NAME, "localhost"),
        ):
            text = text.replace(old, new)
        self.text = re.sub(r"\n *listen \[::\]:.*", "", text)
        self.process: Spawned | None = None

    def start(self) -> None:
        need_tool(self.kind)
        self.folder.mkdir()
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": str(self.folder)}
        if self.kind == "nginx":
            (self.folder / "site.conf").write_text(self.text)
            user = " user root;" if os.geteuid() == 0 else ""
            main = self.folder / "nginx.conf"
            main.write_text(MAIN.format(folder=self.folder, user=user))
            argv = ["nginx", "-c", str(main), "-p", str(self.folder), "-e", "stderr"]
            subprocess.run([*argv, "-t"], env=env, check=True, capture_output=True)
        else:
            main = self.folder / "Caddyfile"
            main.write_text(f"{{\n\tadmin off\n\thttp_port {self.plain}\n\tskip_install_trust\n}}\n{self.text}")
            argv = ["caddy", "run", "--adapter", "caddyfile", "--config", str(main)]
        self.process = Spawned(argv, self.folder.parent / f"{self.folder.name}.log", env, self.folder)
        wait_until(self._listens, 30, lambda: self.process.output if self.process else "")

    def stop(self) -> None:
        if self.process:
            self.process.stop()
            self.process.reap()

    def _listens(self) -> bool:
        assert self.process and self.process.running(), self.process and self.process.output
        with socket.socket() as client:
            return client.connect_ex(("127.0.0.1", self.tls)) == 0
