"""An engine process from start to end: manifest, load, run, exit code."""

from __future__ import annotations

import contextlib
import faulthandler
import logging
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from dalston_queue.artifacts import StoreError
from dalston_queue.broker import connect
from dalston_queue.broker.errors import Invalid
from dalston_queue.tracing import export

from .. import logs
from ..manifest import CONFIG_EXIT, ManifestError, read_manifest
from ..notify import notify
from ..outcomes import BrokenConfigError
from .identity import identify
from .runner import Pause, Resume, Runner, Stop

if TYPE_CHECKING:
    from ..engine import Engine

log = logging.getLogger("engine")


def serve(engine: Engine) -> int:
    """Runs until SIGTERM and returns the exit code: 78 if the configuration is broken and a restart can't help."""
    faulthandler.enable()  # ABRT, the last step but one of a stop, writes every thread's stack
    try:
        logs.configure()
        manifest = read_manifest(os.environ.get("DALSTON_ENGINE_MANIFEST") or _beside_main())
        identity = identify(manifest.id)
        logs.name_engine(identity.engine_id)
        export.configure("engine")
        broker = connect(identity.redis_url, prefix=identity.prefix, cluster=identity.cluster, shards=identity.shards)
        runner = Runner(engine, manifest, broker, identity)
    except (ManifestError, BrokenConfigError, Invalid) as error:
        log.error("%s", error)
        return CONFIG_EXIT
    except StoreError as error:
        log.error("DALSTON_ARTIFACTS_URL: %s", error)
        return CONFIG_EXIT
    runner.workspace.clean_up()
    _check_store(runner)
    notify("STATUS=loading")
    try:
        runner.workers.call(engine.load)
    except BrokenConfigError as error:
        log.error("broken configuration: %s", error)
        return CONFIG_EXIT
    except Exception:
        log.exception("load failed")
        return 1
    export.offer()
    # Not before: TERM while loading ends the process at once, which holds no task yet.
    events: dict[int, type[Stop | Pause | Resume]] = {
        signal.SIGTERM: Stop,
        signal.SIGINT: Stop,
        signal.SIGUSR1: Pause,
        signal.SIGUSR2: Resume,
    }

    def enqueue(number: int, _frame: FrameType | None) -> None:
        runner.inbox.put(events[number]())  # SimpleQueue.put is reentrant: safe in a handler

    for number in events:
        signal.signal(number, enqueue)
    code = runner.run()
    export.close()
    if running := runner.slots.running:
        # A thread that still runs a released task must neither delay nor crash the interpreter's end.
        with contextlib.suppress(OSError):
            log.warning("exit with %d tasks that did not stop; the stacks of their threads:", len(running))
            faulthandler.dump_traceback()
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)
    return code


def _check_store(runner: Runner) -> None:
    """An engine whose tasks have no files works all the same, and a network folder may come back: so it goes on."""
    if runner.workspace.store is None:
        return
    try:
        runner.workspace.store.check()
    except StoreError as error:
        log.error("%s. Tasks with files or large results will fail here: run it as the store's user or group", error)


def _beside_main() -> Path:
    return Path(sys.argv[0]).resolve().parent / "engine.yaml"
