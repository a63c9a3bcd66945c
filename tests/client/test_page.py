"""docs/client.md, docs/order.md and the client's README: examples run, tables are complete, types are the API's."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from typing import Any, get_type_hints

from dalston_client import Client, answers
from dalston_client import transcriptions as recordings
from dalston_client.cli.exits import MEANINGS, Exit
from tests.client.conftest import COMMAND, MISSING, Shell, make_token
from tests.docs.blocks import ROOT, blocks_of
from tests.e2e.conftest import Up

PAGE = (ROOT / "docs" / "client.md").read_text()


def test_the_commands_of_the_page_work(shell: Shell) -> None:
    """Most run in this process; the block with a variable in a real shell."""
    commands, script = blocks_of("docs/client.md", "sh")
    for line in commands.splitlines():
        done = shell.call(*line.split()[1:])
        assert done.code == 0, (line, done)
    path = f"{COMMAND.parent}:{os.environ['PATH']}"
    ran = subprocess.run(
        ["/bin/sh", "-euc", script], env={**shell.env, "PATH": path}, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert '"event": "end"' in ran.stdout


def test_the_limits_of_the_page_about_order_are_set(shell: Shell) -> None:
    [block] = blocks_of("docs/order.md", "sh")
    for line in block.splitlines():
        done = shell.call(*shlex.split(line)[1:])
        assert done.code == 0, (line, done)


def test_the_command_of_the_readme_works(shell: Shell) -> None:
    """./dev has installed the client; the variables are those of the test's server."""
    [block] = blocks_of("client/README.md", "")
    install, variables, command = block.splitlines()
    assert install == "pip install ./client"
    assert re.findall(r"(\w+)=", variables) == ["DALSTON_URL", "DALSTON_TOKEN"]
    done = shell.call(*command.removeprefix("dalston ").split())
    assert (done.code, done.stdout.splitlines()[-1]) == (0, "echo completed"), done


def test_the_program_of_the_page_works(shell: Shell) -> None:
    [program] = blocks_of("docs/client.md", "python")
    ran = subprocess.run([sys.executable, "-c", program], env=shell.env, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert "echo completed" in lines and "last completed" in lines
    assert lines[-2:] == ["completed [{'n': 1}, {}]", "state_conflict The job is over already: it is completed."]


def test_the_page_has_every_exit_code_command_and_method(shell: Shell) -> None:
    assert [f"| {code.value} | {meaning} |" in PAGE for code, meaning in MEANINGS.items()] == [True] * len(MEANINGS)
    commands = re.findall(r"^    (\w+) ", shell.call("--help").stdout, re.MULTILINE)
    table = PAGE.split("| command | what it does |")[1].split("\n\n")[0]
    assert commands and [name for name in commands if f"`{name}`" not in table] == []
    own = {**vars(recordings.TranscriptionCalls), **vars(Client)}
    methods = [name for name in own if not name.startswith("_") and name != "close"]
    assert [name for name in methods if f"`{name}`" not in PAGE] == []


SAMPLES = {
    "transcribe": ["transcribe", __file__, "--give-up-after", "1"],
    "submit": ["submit", "echo"],
    "cancel": ["cancel", MISSING],
    "jobs": ["jobs"],
    "tasks": ["tasks"],
    "watch": ["watch", MISSING],
    "why": ["why", MISSING],
    "stats": ["stats"],
    "top": ["top", "--count", "1"],
    "dead-letters": ["dead-letters", "list"],
    "nodes": ["nodes"],
    "streams": ["streams"],
    "logs": ["logs", "nowhere", "demo.0"],
    "limits": ["limits"],
}


def test_a_token_with_the_scope_of_the_page_is_enough_for_its_commands(shell: Shell, up: Up) -> None:
    table = PAGE.split("| scope of the token | commands that need it |")[1].split("\n\n")[0]
    scopes = dict(re.findall(r"^\| `(\w+)` \| ([^;|]*(?:;[^|]*)?) \|$", table, re.MULTILINE))
    assert set(scopes) == {"submit", "read", "operate"}
    both = {"submit": ["--scope", "read"]}
    tokens = {scope: make_token(up, f"scope-{scope}", scope, *both.get(scope, ())) for scope in [*scopes, "worker"]}
    for command, arguments in SAMPLES.items():
        scope = next(scope for scope, commands in scopes.items() if f"`{command}`" in commands)
        right = shell.call(*arguments, DALSTON_TOKEN=tokens[scope])
        assert right.code != Exit.REFUSED, (command, right)
        wrong = shell.call(*arguments, DALSTON_TOKEN=tokens["worker"])
        assert wrong.code == Exit.REFUSED, (command, wrong)
    assert set(SAMPLES) == set(re.findall(r"^    ([\w-]+) ", shell.call("--help").stdout, re.MULTILINE))


TYPES: dict[str, Any] = {
    "JobOut": answers.Job, "JobTaskOut": answers.JobTask, "TaskOut": answers.Task, "DeliveryOut": answers.Delivery,
    "EventOut": answers.TaskEvent, "ErrorOut": answers.TaskError, "WebhookOut": answers.Webhook,
    "BatchOut": answers.Batch, "BatchItem": answers.BatchItem, "CancelledTaskOut": answers.CancelledTask,
    "CancelledJobOut": answers.CancelledJob, "WhyOut": answers.Why,
    "DeadLetterOut": answers.DeadLetter, "GroupOut": answers.Group, "ReplayedOut": answers.Replayed,
    "ReplayManyOut": answers.ReplayedMany, "ReplayBatchOut": answers.ReplayBatch, "WithdrawnOut": answers.Withdrawn,
    "DiscardOut": answers.Discarded, "NodeOut": answers.Node, "EngineOut": answers.Engine,
    "CommandOut": answers.Command, "ForgottenOut": answers.Forgotten, "LogsOut": answers.Logs,
    "WorkerDrainOut": answers.WorkerDrain,
    "LogLineOut": answers.LogLine, "LaneOut": answers.Lane, "StreamOut": answers.Stream, "PauseOut": answers.Paused,
    "LimitOut": answers.Limit, "LimitSetOut": answers.LimitSet, "LimitRemovedOut": answers.LimitRemoved,
    "WeightOut": answers.Weight, "WeightSetOut": answers.WeightSet,
    "TranscriptionOut": recordings.Transcription, "OneTranscriptionOut": recordings.OneTranscription,
    "SegmentOut": recordings.Segment, "WordOut": recordings.Word, "DeletedOut": recordings.DeletedTranscription,
    "ModelOut": recordings.Model,
    "Stats": answers.Stats, "Depth": answers.Depth, "Workers": answers.Workers, "Throughput": answers.Throughput,
}  # fmt: skip


def test_the_types_have_exactly_the_fields_of_the_schema() -> None:
    from dalston_queue.api.api import api

    schemas = api.get_openapi_schema(path_prefix="")["components"]["schemas"]
    assert {name: set(get_type_hints(kind)) for name, kind in TYPES.items()} == {
        name: set(schemas[name]["properties"]) for name in TYPES
    }
