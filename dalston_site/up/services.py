"""The processes of `up`: the command and the environment of each."""

import json
import os
import signal
import socket
import sys
from dataclasses import dataclass

import psutil

from dalston_queue.broker import Broker, connect
from dalston_site import env
from dalston_site.embedded.guarded import guarded
from dalston_site.embedded.secret import secret
from dalston_site.up.children import Child, Children, Program, Stage
from dalston_site.up.options import ROOT, Options

# Not for nodes: they need Redis and nothing else.
PRIVATE = {"DATABASE_URL", "DALSTON_SECRET_KEY", "DALSTON_TOKEN", "NOTIFY_SOCKET", "PGPASSWORD"}


@dataclass(frozen=True)
class Addresses:
    database_url: str
    redis_url: str


class Services:
    def __init__(self, options: Options, children: Children, addresses: Addresses, notify_socket: str) -> None:
        self._options = options
        self._children = children
        self._addresses = addresses
        self._notify_socket = notify_socket
        self.metrics: dict[str, str] = {"web": f"127.0.0.1:{options.port}"}
        """By process the address of its /metrics."""

    def broker(self) -> Broker:
        """From the same variables as in the processes."""
        return connect(
            self._addresses.redis_url,
            prefix=env.text("DALSTON_REDIS_PREFIX", "dalston"),
            cluster=env.flag("DALSTON_REDIS_CLUSTER", False),
            shards=env.text("DALSTON_REDIS_URLS"),
        )

    def start_setup(self) -> Child:
        return self._python("setup", ["-m", "dalston_site.up.accounts", str(self._options.data)], self._server_env())

    def start_web(self) -> Child:
        listen = ["--host", self._options.bind, "--port", str(self._options.port)]
        quiet = ["--log-level", "warning", "--timeout-graceful-shutdown", "2"]
        return self._python("web", ["-m", "dalston_site.web", *listen, *quiet], self._server_env())

    def start_orchestrator(self, number: int) -> Child:
        name = f"orchestrator-{number}"
        return self._python(name, ["manage.py", "runorchestrator"], self._with_metrics(name))

    def start_housekeeping(self) -> Child:
        return self._python("housekeeping", ["manage.py", "run_huey"], self._with_metrics("housekeeping"))

    def _with_metrics(self, name: str) -> dict[str, str]:
        return {**self._server_env(), "DALSTON_METRICS_ADDRESS": self._metrics_of(name)}

    def _metrics_of(self, name: str) -> str:
        """A free port on loopback, the same when the process is started again."""
        self.metrics[name] = f"127.0.0.1:{free_port()}"
        return self.metrics[name]

    def write_prometheus(self) -> None:
        """`prometheus.yml` in the data folder, with the address of each process."""
        (self._options.data / "prometheus.yml").write_text(prometheus_config(self.metrics))

    def start_node(self, number: int) -> Child:
        node_id = f"node-{number}"
        state = self._options.data / "nodes" / node_id
        arguments = ["manage.py", "runsupervisor", "--node-id", node_id, "--state-dir", str(state)]
        arguments += ["--http", self._metrics_of(node_id)]
        return self._python(node_id, arguments, self._node_env(), Stage.NODE)

    def _python(self, name: str, arguments: list[str], env: dict[str, str], stage: Stage = Stage.SERVICE) -> Child:
        argv = guarded([sys.executable, *arguments], dies_with=signal.SIGTERM)
        return self._children.start(Program(name, argv, env, stage))

    def _node_env(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if name not in PRIVATE}
        artifacts = env.text("DALSTON_ARTIFACTS_URL", (self._options.data / "artifacts").as_uri())
        ours = {"REDIS_URL": self._addresses.redis_url, "DALSTON_ARTIFACTS_URL": artifacts}
        return {**inherited, "DALSTON_DEV": "1", "PYTHONUNBUFFERED": "1", **ours}

    def _server_env(self) -> dict[str, str]:
        return {
            **self._node_env(),
            "NOTIFY_SOCKET": self._notify_socket,
            "DATABASE_URL": self._addresses.database_url,
            "DALSTON_SECRET_KEY": secret(self._options.data / "secret-key").read_text(),
            "DALSTON_ALLOWED_HOSTS": ",".join(allowed_hosts(self._options)),
        }


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def prometheus_config(addresses: dict[str, str]) -> str:
    """YAML, of which JSON is a part."""
    targets = [{"targets": [address], "labels": {"process": name}} for name, address in addresses.items()]
    config = {
        "global": {"scrape_interval": "15s", "evaluation_interval": "15s"},
        "rule_files": [str(ROOT / "deploy" / "prometheus" / "alerts.yml")],
        "scrape_configs": [{"job_name": "dalston", "static_configs": targets}],
    }
    return json.dumps(config, indent=2) + "\n"


def allowed_hosts(options: Options) -> list[str]:
    """With --lan, every name and address of this machine; never `*`, which would let any web page rebind to us."""
    hosts = ["localhost", "127.0.0.1", "[::1]"]
    if options.lan:
        hosts += [socket.gethostname(), f"{socket.gethostname()}.local", *lan_addresses()]
    return hosts


def lan_addresses() -> list[str]:
    cards = psutil.net_if_addrs().values()
    found = [address.address for card in cards for address in card if address.family == socket.AF_INET]
    return [address for address in found if not address.startswith("127.")]
