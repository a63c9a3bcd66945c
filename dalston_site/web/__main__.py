"""The server of the web process: uvicorn with h11 and bounded connections. `python -m dalston_site.web` starts it.

The same for units, containers, `./dev up` and tests. `uvicorn dalston_site.asgi:application` would choose its parser by
what is installed: httptools takes a header without end into memory, and blocks the process meanwhile.

No proxy is trusted unless `--forwarded-allow-ips` names it: any program on this machine could pretend to be one, and
take another client's address for each try to log in.
"""

import argparse
import sys
from collections.abc import Sequence

import uvicorn

from dalston_site.version import installed_version
from dalston_site.web.protocol import MAX_HEAD_BYTES, BoundedProtocol
from dalston_site.web.serving import Server
from dalston_site.web.sockets import BoundedWebSocket

SWITCH_S = 0.0001
"""After which a thread that computes lets another one go on. A request waits so long a dozen times while another
project's batch is checked: with 0.5 ms it took 21 ms instead of 13, and with Python's own 5 ms 40. Requests per second
are the same (docs/security.md)."""


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m dalston_site.web", description="Serve the web process.")
    parser.add_argument("--version", action="version", version=f"dalston {installed_version()}")
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=int, default=8000, help="its port (default: %(default)s)")
    parser.add_argument("--uds", help="a Unix socket instead")
    parser.add_argument(
        "--forwarded-allow-ips",
        default="",
        metavar="ADDRESSES",
        help="proxies whose X-Forwarded-For and -Proto are believed, separated by commas (default: none)",
    )
    parser.add_argument("--log-level", default=None)
    parser.add_argument("--timeout-graceful-shutdown", type=int, default=None, metavar="SECONDS")
    parser.add_argument(
        "--drain-seconds",
        type=float,
        default=0.0,
        metavar="SECONDS",
        help="after SIGTERM go on for so long, with /readyz failing, before the port closes (default: %(default)g)",
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = parse(argv)
    config = uvicorn.Config(
        "dalston_site.asgi:application",
        host=options.host,
        port=options.port,
        uds=options.uds,
        log_level=options.log_level,
        http=BoundedProtocol,
        ws=BoundedWebSocket,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        ws_max_size=MAX_HEAD_BYTES,  # a live page sends nothing
        lifespan="off",
        timeout_graceful_shutdown=options.timeout_graceful_shutdown,
        proxy_headers=bool(options.forwarded_allow_ips),
        forwarded_allow_ips=options.forwarded_allow_ips,
    )
    sys.setswitchinterval(SWITCH_S)
    server = Server(config, options.drain_seconds)
    server.run()
    if not server.started:
        sys.exit(3)  # as uvicorn does when it can't start


if __name__ == "__main__":
    main(sys.argv[1:])
