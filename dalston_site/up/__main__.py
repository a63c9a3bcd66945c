"""`./dev up`, from start to stop."""

import os
import socket
import sys
import time
from collections.abc import Callable, Sequence
from typing import NoReturn
from urllib.parse import urlsplit

from dalston_site.embedded.binaries import ServerError
from dalston_site.embedded.guarded import can_guard
from dalston_site.embedded.postgres import Postgres
from dalston_site.embedded.server import Recipe, launch
from dalston_site.embedded.valkey import Valkey
from dalston_site.up.children import Child, Children, Program, Restarts, Stage
from dalston_site.up.console import Console
from dalston_site.up.hint import DevEnv, hint
from dalston_site.up.holder import Holder
from dalston_site.up.options import Options, parse
from dalston_site.up.readiness import Announcements, Probe, has_announced, node_is_ready, wait_for, web_answers
from dalston_site.up.services import Addresses, Services
from dalston_site.up.stopping import Interrupted, Signals, UpError


class Up:
    def __init__(self, options: Options, console: Console, children: Children) -> None:
        self.options = options
        self.console = console
        self.children = children
        self.dev_env = DevEnv(options.data)
        self.announcements = Announcements()
        self.servers: dict[str, tuple[Recipe, int]] = {}  # ours, and their ports

    def run(self) -> NoReturn:
        """Starts all processes, then watches them. Ends only by an exception."""
        begin = time.monotonic()
        self.dev_env.remove()
        check_port(self.options)
        if not can_guard():
            self.console.write(
                "No `setpriv` found: after a kill -9 of this process the others run until the next ./dev up."
            )
        addresses = self.start_servers()
        services = Services(self.options, self.children, addresses, self.announcements.address)
        nodes = self.start_nodes(services)  # they need no database, and load during the migrations
        self.set_up(services)
        wait_for([*self.start_services(services), *nodes], self.raise_if_one_died)
        token, password = ((self.options.data / name).read_text() for name in ("api-token", "admin-password"))
        self.dev_env.write(self.options.url, token, addresses)
        services.write_prometheus()
        self.console.write(f"Everything answers, {time.monotonic() - begin:.1f} s after the start.")
        self.console.plain(hint(self.options, token, password, self.dev_env.path))
        self.watch()

    def start_servers(self) -> Addresses:
        data = self.options.data
        database_url = os.environ.get("DATABASE_URL") or self.start_server(Postgres(data / "postgres"))
        redis_url = os.environ.get("REDIS_URL") or self.start_server(Valkey(data / "valkey"))
        return Addresses(database_url, redis_url)

    def start_server(self, recipe: Recipe) -> str:
        self.console.write(f"Starting {recipe.name}.")
        url = launch(recipe, self.spawner(recipe))
        self.servers[recipe.name] = (recipe, urlsplit(url).port or 0)
        return url

    def spawner(self, recipe: Recipe) -> Callable[[list[str]], Child]:
        env = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}

        def spawn(argv: list[str]) -> Child:
            return self.children.start(
                Program(recipe.name, argv, env, Stage.DATABASE, recipe.stop_signal, recipe.noise)
            )

        return spawn

    def set_up(self, services: Services) -> None:
        self.console.write("Bringing the database up to date.")
        setup = services.start_setup()
        while setup.poll() is None:
            self.raise_if_one_died(besides=setup)
            time.sleep(0.02)
        if setup.poll():
            raise self.death_of(setup)
        self.children.forget(setup)

    def start_nodes(self, services: Services) -> list[Probe]:
        self.console.write("Starting nodes.")
        since_ms = time.time_ns() // 1_000_000
        nodes = [services.start_node(number) for number in range(1, self.options.nodes + 1)]
        broker = services.broker()
        return [node_is_ready(broker, node.name, since_ms) for node in nodes]

    def start_services(self, services: Services) -> list[Probe]:
        """Starts them and returns a readiness probe of each."""
        self.console.write("Starting web, orchestrators and housekeeping.")
        services.start_web()
        announcing = [services.start_orchestrator(number) for number in range(1, self.options.orchestrators + 1)]
        announcing.append(services.start_housekeeping())
        announced = [has_announced(child.name, child.pid, self.announcements) for child in announcing]
        return [web_answers(self.options), *announced]

    def watch(self) -> NoReturn:
        restarts = Restarts()
        while True:
            dead = self.children.dead()
            if dead is not None and not restarts.allow(dead.name, time.monotonic()):
                raise self.death_of(dead)
            if dead is not None:
                self.console.write(f"{dead.name} {dead.how_it_ended()}. Starting it again.")
                self.start_again(dead)
            time.sleep(0.1)

    def start_again(self, dead: Child) -> None:
        if server := self.servers.get(dead.name):
            # Its files have all that it acknowledged; the others wait for it at the same address.
            recipe, port = server
            launch(recipe, self.spawner(recipe), port)
        else:
            self.children.start(dead.program)

    def raise_if_one_died(self, besides: Child | None = None) -> None:
        dead = self.children.dead()
        if dead is not None and dead is not besides:
            raise self.death_of(dead)

    def death_of(self, dead: Child) -> UpError:
        return UpError(f"{dead.name} {dead.how_it_ended()}. Its last lines:\n{dead.tail()}")


def check_port(options: Options) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((options.bind, options.port))
        except OSError as error:
            raise UpError(
                f"Port {options.port} on {options.bind} can't be used ({error.strerror}). "
                "Stop the program that has it, or choose another with --port."
            ) from None


def main(argv: Sequence[str]) -> int:
    signals = Signals()
    options = parse(argv)
    console = Console()
    try:
        with Holder(options.data, options.url, console) as holder:
            return run_and_stop(options, console, Children(holder, console), signals)
    except Interrupted:
        return 0
    except UpError as error:
        console.write(f"Error: {error}")
        return 1


def run_and_stop(options: Options, console: Console, children: Children, signals: Signals) -> int:
    up = Up(options, console, children)
    try:
        up.run()
    except Interrupted as interrupt:
        console.write(f"{interrupt}: stopping. Press Ctrl-C again to kill everything now.")
        return 0
    except (UpError, ServerError) as error:
        console.write(f"Error: {error}")
        return 1
    finally:
        signals.stopping()
        up.dev_env.remove()
        children.stop(signals.forced)
        up.announcements.close()
        console.write("Stopped.")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
