"""Dalston: `manage.py runorchestrator` and one engine of capacity 32 through the SDK; jobs of one task, submitted in
batches of 200; every change of status with its row of history.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

from dalston_site.embedded.guarded import guarded

ENGINE = Path(__file__).parent / "noop_engine" / "engine.yaml"


def _django() -> None:
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dalston_site.settings")
    django.setup()


def prepare() -> None:
    _django()
    from django.core.management import call_command

    from dalston_queue.models import Project

    call_command("migrate", verbosity=0)
    Project.objects.create(name="bench")


def submit(count: int) -> None:
    _django()
    from dalston_queue.jobs.submit.spec import single_task
    from dalston_queue.jobs.submit.submit import Request, submit_many
    from dalston_queue.models import Project

    project = Project.objects.get(name="bench")
    for begin in range(0, count, 200):
        numbers = range(begin, min(begin + 200, count))
        submit_many(
            [Request(single_task("noop", parameters={"number": number})) for number in numbers], project=project
        )


def work() -> None:
    engine = [sys.executable, "-m", "engines.sdk", "run", str(ENGINE)]
    subprocess.Popen(guarded(engine, dies_with=signal.SIGKILL))
    subprocess.run(guarded([sys.executable, "manage.py", "runorchestrator"], dies_with=signal.SIGKILL), check=True)
