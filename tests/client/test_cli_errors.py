"""Errors of the command `dalston`: exit codes, configuration, closed pipes, full disks; and its help."""

from __future__ import annotations

import json
import subprocess
from importlib.metadata import version
from pathlib import Path

from dalston_client import Client
from dalston_client.cli.exits import Exit
from tests.client.conftest import COMMAND, MISSING, Shell, make_token
from tests.e2e.conftest import Up
from tests.support import reserve_port
from tests.tls import tls_server


def test_every_kind_of_failure_has_its_exit_code(shell: Shell, up: Up, tmp_path: Path, client: Client) -> None:
    over = client.submit_task("echo", wait=30)["job_id"]
    loose = tmp_path / "loose"
    loose.write_text("dal_wrong")
    loose.chmod(0o644)
    tight = tmp_path / "tight"
    tight.write_text("dal_wrong\n")
    tight.chmod(0o600)
    nowhere = {"DALSTON_URL": f"http://127.0.0.1:{reserve_port()}"}
    expected: list[tuple[tuple[str, ...], dict[str, str], Exit, str]] = [
        (("jobs", MISSING), {}, Exit.NOT_FOUND, "not_found"),
        (("jobs", "nonsense"), {}, Exit.INVALID, "invalid"),
        (("cancel", over), {}, Exit.CONFLICT, "state_conflict"),
        (("--retry-timeout", "0.2", "nodes"), nowhere, Exit.UNREACHABLE, "unreachable"),
        (("nodes",), {"DALSTON_TOKEN": ""}, Exit.USAGE, "notconfigured"),
        (("--token-file", str(tight), "nodes"), {}, Exit.REFUSED, "token_invalid"),
        (("--token-file", str(loose), "nodes"), {}, Exit.USAGE, "notconfigured"),
        (("submit",), {}, Exit.USAGE, "usage"),
        (("dead-letters", "replay"), {}, Exit.USAGE, "usage"),
        (("submit", "echo", "n:=oops"), {}, Exit.USAGE, "usage"),
        (("nosuch",), {}, Exit.USAGE, "usage"),
        (("jobs", ""), {}, Exit.USAGE, "usage"),
        (("cancel", MISSING, ""), {}, Exit.USAGE, "usage"),
        (("nodes", "drain", ".."), {}, Exit.USAGE, "usage"),
    ]
    done = [shell.call(*command, "--json", **env) for command, env, _, _ in expected]
    found = [(it.code, it.error["code"], it.error["exit_code"], it.stdout) for it in done]
    assert found == [(code, name, code, "") for _, _, code, name in expected]
    assert done[0].error["trace_id"] and done[0].error["status"] == 404
    assert not [it for it in done if "dal_" in it.stderr]
    plain = shell.run("jobs", MISSING)
    assert plain.code == Exit.NOT_FOUND
    assert plain.stderr == f"dalston: There is no job {MISSING}, or it belongs to another project.\n"


def test_a_token_that_has_called_too_often_gets_the_exit_code_for_busy(shell: Shell, up: Up) -> None:
    token = make_token(up, "busy", "read", "--rate", "limited")
    with Client(up.env["DALSTON_URL"], token) as client:
        for _ in range(100):  # what `limited` allows in a minute
            client.stats()
    busy = shell.call("--retry-timeout", "0", "stats", "--json", DALSTON_TOKEN=token)
    assert (busy.code, busy.stdout) == (Exit.BUSY, "")
    assert (busy.error["code"], busy.error["status"], busy.error["exit_code"]) == ("rate_limited", 429, Exit.BUSY)
    assert shell.run("--retry-timeout", "0", "stats", DALSTON_TOKEN=token).code == Exit.BUSY


def test_it_reads_the_file_that_dev_up_writes(up: Up, tmp_path: Path) -> None:
    bare = Shell(DALSTON_URL="", DALSTON_TOKEN="")
    assert bare.call("--env-file", str(up.data / "dev.env"), "stats", "--json").code == 0
    half = tmp_path / "half.env"
    half.write_text("DALSTON_URL=http://x\n")
    wrong = bare.call("--env-file", str(half), "stats")
    assert (wrong.code, "does not set DALSTON_TOKEN" in wrong.stderr) == (Exit.USAGE, True)


def test_a_closed_pipe_is_no_error(shell: Shell, client: Client) -> None:
    client.submit_task("echo")
    with shell.start("jobs", "--limit", "200") as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(40) == 0
        assert process.stderr is not None and "Error" not in process.stderr.read()


def test_a_full_disk_and_an_argument_that_is_no_text_are_errors_of_one_line(shell: Shell) -> None:
    with Path("/dev/full").open("w") as full:
        command = [str(COMMAND), "streams", "--json"]
        done = subprocess.run(command, env=shell.env, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == Exit.USAGE
    assert json.loads(done.stderr)["error"]["detail"] == "The output can't be written: No space left on device."
    for words in (["submit", "echo", "a=\udcff\udcfe"], ["why", "\udcff"]):
        refused = shell.run(*words)
        assert refused.code == Exit.USAGE and "not valid UTF-8: b'" in refused.stderr


def test_help_names_every_command_and_exit_code(shell: Shell) -> None:
    text = shell.call("--help").stdout
    for name in (
        "transcribe",
        "submit",
        "jobs",
        "watch",
        "cancel",
        "tasks",
        "why",
        "dead-letters",
        "nodes",
        "logs",
        "streams",
        "stats",
        "top",
    ):
        assert f"\n    {name} " in text
    assert all(f"\n  {code.value} " in text for code in Exit)
    assert "token" not in [
        word.strip("-") for word in shell.call("submit", "--help").stdout.split() if word.startswith("--")
    ]


def test_waiting_for_a_queue_without_an_engine_says_why(shell: Shell) -> None:
    done = shell.run("submit", "never-served", "--wait", "--give-up-after", "5")
    assert done.code == Exit.NOT_YET
    assert "still waiting: " in done.stderr and "No ready engine serves" in done.stderr
    assert done.stderr.count("still waiting: ") == 1


def test_the_version_is_shown(shell: Shell) -> None:
    done = shell.call("--version")
    assert (done.code, done.stdout) == (0, f"dalston {version('dalston-client')}\n")


def test_a_certificate_of_another_ca_is_named_and_how_to_trust_it(shell: Shell, tmp_path: Path) -> None:
    with tls_server(tmp_path) as (port, certificate):
        address = {"DALSTON_URL": f"https://localhost:{port}"}
        done = shell.run("nodes", **address)
        assert (done.code, done.stderr.count("\n")) == (Exit.USAGE, 1)
        assert f"The certificate of https://localhost:{port} is not trusted here" in done.stderr
        assert "set SSL_CERT_FILE" in done.stderr and "Is the address right?" not in done.stderr
        trusted = shell.run("--retry-timeout", "0", "nodes", **address, SSL_CERT_FILE=str(certificate))
        assert "certificate" not in trusted.stderr
