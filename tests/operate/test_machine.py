"""Each line of the pages that an operator follows, on a Debian 12: install, back up, restore, upgrade, uninstall."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator

import pytest

from tests.conftest import ROOT
from tests.docs.blocks import blocks_of
from tests.operate.machine import Machine
from tests.support import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]
INSTALL, BACKUP, UPGRADE, REMOVE = (
    "docs/operate/install.md",
    "docs/operate/backup.md",
    "docs/operate/upgrade.md",
    "docs/operate/uninstall.md",
)
BLOCKS = {
    INSTALL: blocks_of("docs/operate/install.md", "sh"),
    BACKUP: blocks_of("docs/operate/backup.md", "sh"),
    UPGRADE: blocks_of("docs/operate/upgrade.md", "sh"),
    REMOVE: blocks_of("docs/operate/uninstall.md", "sh"),
}
WRONG_LOGIN = """
curl="curl --silent --fail --interface 127.0.0.9 --cookie-jar /root/jar --cookie /root/jar"
token=$($curl $DALSTON_URL/login/ | sed -n 's/.*csrfmiddlewaretoken" value="\\([^"]*\\).*/\\1/p' | head -n 1)
$curl --output /dev/null --referer $DALSTON_URL/login/ -H "Origin: $DALSTON_URL" -H "X-Forwarded-For: 198.51.100.7" \\
    --data-urlencode "csrfmiddlewaretoken=$token" -d "username=ada&password=wrong" $DALSTON_URL/login/
rm /root/jar
"""
# As on a machine that was installed anew: other passwords, another key, an empty database.
LOSS = """
systemctl stop dalston-web dalston-housekeeping dalston-orchestrator@1 dalston-orchestrator@2 dalston-supervisor
cd /
runuser -u postgres -- dropdb --force dalston
runuser -u postgres -- createdb --owner dalston dalston
rm -r /srv/dalston/*
sed -i "s/[0-9a-f]\\{48\\}/$(openssl rand -hex 24)/" /etc/redis/users.acl
echo REDIS_URL=redis://:another@127.0.0.1:6379/0 >/etc/dalston/server.env
rm /etc/dalston/node.env /etc/ssl/dalston/key.pem
systemctl restart redis-server
"""
CLONE = "/usr/local/src/dalston"
PASSWORD = "correct horse battery staple"
LOGIN = {"Username.*:": "ada", "Email.*:": "", "Password:": PASSWORD, r"Password \(again\):": PASSWORD}


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    made = Machine(tmp_path_factory.mktemp("machine"))
    yield made
    made.remove()


@pytest.fixture(scope="module")
def printed(machine: Machine) -> list[str]:
    """What the blocks of the page printed, in their order."""
    machine.copy_the_clone(CLONE)
    output = [machine.run(block, LOGIN if "createsuperuser" in block else None) for block in BLOCKS[INSTALL]]
    machine.run("export SSL_CERT_FILE=/etc/ssl/dalston/cert.pem  # for the tests' own requests\n")
    return output


def test_the_first_task_ran_over_https(printed: list[str], machine: Machine) -> None:
    assert re.search(r'"hello": "world"', printed[-1]), printed[-1]
    units = machine.run("systemctl show --property=ActiveState,NRestarts,User 'dalston-*'")
    assert units.count("ActiveState=active") == units.count("NRestarts=0") == units.count("User=dalston") == 5, units


def submit(machine: Machine, count: int, seconds: float = 0.3) -> None:
    """So many jobs, two stages each."""
    stages = [{"stage": "echo"}, {"stage": "sleep", "after": ["echo"], "parameters": {"seconds": seconds}}]
    body = json.dumps({"jobs": [{"name": "operate", "stages": stages}] * count})
    (machine.root / "root/jobs.json").write_text(body)
    curl = 'curl --silent --show-error --fail-with-body -H "Authorization: Bearer $(cat ~/.dalston-token)"'
    machine.run(
        f"{curl} -H 'Content-Type: application/json' -d @/root/jobs.json $DALSTON_URL/api/v1/jobs:batch >/dev/null\n"
    )


def ask(machine: Machine, query: str) -> str:
    return machine.run(f'cd / && runuser -u postgres -- psql -qAt dalston -c "{query}"\n').strip()


def jobs(machine: Machine) -> dict[str, int]:
    rows = ask(machine, "SELECT status, count(*) FROM dalston_job GROUP BY status").split()
    return {status: int(count) for status, count in (row.split("|") for row in rows)}


def wait_for_jobs(machine: Machine, completed: int, timeout: float = 120) -> None:
    wait_until(lambda: jobs(machine).get("completed", 0) >= completed, timeout, lambda: str(jobs(machine)))


def all_is_well(machine: Machine) -> None:
    """Each job completed, each task once; and the pages are there, with their files."""
    total = sum(jobs(machine).values())
    wait_for_jobs(machine, total)
    assert jobs(machine) == {"completed": total}
    twice = "SELECT task_id FROM dalston_task_event WHERE transition = 'complete' GROUP BY task_id HAVING count(*) > 1"
    assert ask(machine, twice) == ""
    page = machine.run("curl --fail --silent --show-error $DALSTON_URL/login/\n")
    for path in re.findall(r'(?:src|href)="(/static/[^"]+)"', page):
        machine.run(f"curl --fail --silent --show-error --output /dev/null $DALSTON_URL{path}\n")


def follow(machine: Machine, page: str, heading: str, **filled: str) -> list[str]:
    """Runs the blocks below a heading of a page, with the values that a reader fills in."""
    text = (ROOT / page).read_text()
    section = re.split(r"^##+ ", text.partition(f"## {heading}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    printed = [machine.run(filled_in(block, filled)) for block in BLOCKS[page] if block in section]
    assert printed, f"{page} has no commands below {heading!r}"
    return printed


def filled_in(block: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        block = re.sub(rf"^{name}=.*", f"{name}={value}", block, flags=re.MULTILINE)
    return block


def test_the_machine_is_as_the_checklist_says(printed: list[str], machine: Machine) -> None:
    """What docs/operate/checklist.md marks as done by the install page."""
    secrets = "/etc/dalston/server.env /etc/dalston/node.env"
    assert machine.run(f"stat -c '%U %a' {secrets}\n").split() == ["dalston", "600"] * 2
    assert machine.run("stat -c '%U %a' /etc/redis/users.acl /etc/ssl/dalston/key.pem\n").split() == [
        "redis", "600", "root", "600",
    ]  # fmt: skip
    listening = machine.run("ss -Hltn | awk '{print $4}'\n").split()
    assert {each.rpartition(":")[2] for each in listening if not each.startswith(("127.", "[::1]"))} == {"80", "443"}
    refused = machine.run("REDISCLI_AUTH=$SERVER_PASSWORD redis-cli ACL LOG | grep -A 1 -x object || true\n").split()
    assert set(refused) - {"object", "--"} <= {"info"}, "doctor asks for it; a node is refused nothing"
    code = "curl --silent --output /dev/null --write-out '%{http_code}' "
    assert machine.run(f"{code} $DALSTON_URL/metrics\n") == "404"
    token = "$(sed -n s/^DALSTON_METRICS_TOKEN=//p /etc/dalston/server.env)"
    inside = f'{code} -H "Authorization: Bearer {token}" http://127.0.0.1:8000/metrics'
    assert machine.run(f"{inside}\n") == "200"
    units = machine.run("systemctl show --property=User,NoNewPrivileges,ProtectSystem 'dalston-*'\n")
    assert units.count("NoNewPrivileges=yes") == units.count("ProtectSystem=strict") == 5, units
    machine.run(WRONG_LOGIN)
    assert ask(machine, "SELECT address FROM dalston_login_attempt") == "127.0.0.9"
    journal = machine.run("journalctl --no-pager --output=cat\n")
    secret = machine.run("cat /etc/dalston/*.env ~/.dalston-token\n")
    leaked = [word for word in re.findall(r"[\w/+=-]{30,}", secret) if word in journal]
    assert not leaked


def test_everything_comes_back_after_a_power_cut(printed: list[str], machine: Machine) -> None:
    submit(machine, 40)
    wait_for_jobs(machine, 5)
    machine.power_off()
    machine.boot()
    all_is_well(machine)


def test_a_dump_is_restored_with_jobs_on_their_way(printed: list[str], machine: Machine) -> None:
    submit(machine, 60)
    wait_for_jobs(machine, jobs(machine).get("completed", 0) + 5)
    follow(machine, BACKUP, "Dump")
    at_the_dump = sum(jobs(machine).values())
    wait_for_jobs(machine, jobs(machine)["completed"] + 5)  # Redis goes on beyond the dump
    machine.run(LOSS)
    follow(machine, BACKUP, "On a new machine")
    follow(machine, BACKUP, "Database and files")
    follow(machine, BACKUP, "Empty Redis, and start")
    assert sum(jobs(machine).values()) == at_the_dump
    submit(machine, 5)  # the token of before
    all_is_well(machine)


def test_a_moment_before_a_mistake_is_restored(printed: list[str], machine: Machine) -> None:
    follow(machine, BACKUP, "Archive the log")
    submit(machine, 40)
    wait_for_jobs(machine, jobs(machine).get("completed", 0) + 5)
    before = sum(jobs(machine).values())
    until = ask(machine, "SELECT now()")
    ask(machine, "TRUNCATE dalston_job CASCADE")
    assert jobs(machine) == {}
    submit(machine, 3)
    follow(machine, BACKUP, "Back to a moment", UNTIL=f"'{until}'")
    follow(machine, BACKUP, "Empty Redis, and start")
    assert sum(jobs(machine).values()) == before
    all_is_well(machine)


def test_a_newer_version_goes_in_and_back_out_while_jobs_run(printed: list[str], machine: Machine) -> None:
    newer = f"{version()}.1"
    for name in ("pyproject.toml", "client/pyproject.toml"):
        file = machine.root / CLONE.lstrip("/") / name
        file.write_text(file.read_text().replace(f'version = "{version()}"', f'version = "{newer}"'))
    submit(machine, 60)
    machine.run(f"cd {CLONE} && ./dev build\n")
    follow(machine, UPGRADE, "Install it beside the running one", NEW=newer)
    follow(machine, UPGRADE, "Prepare it")
    follow(machine, UPGRADE, "Turn the link")
    assert runs(machine) == newer
    all_is_well(machine)
    submit(machine, 20)
    follow(machine, UPGRADE, "The way back", OLD=version())
    assert runs(machine) == version()
    all_is_well(machine)


def test_nothing_is_left_after_the_uninstallation(printed: list[str], machine: Machine) -> None:
    follow(machine, REMOVE, "Remove the programs")
    follow(machine, REMOVE, "Remove the data")
    follow(machine, REMOVE, "Remove what others know of it")
    kept = " ".join(f"-not -path '{folder}*'" for folder in (CLONE, "/var/backups/", "/proc/"))
    assert machine.run(f"find / -xdev -iname '*dalston*' {kept}\n") == ""
    assert machine.run("getent passwd dalston || true; systemctl --failed --no-legend\n") == ""


def version() -> str:
    return str(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])


def runs(machine: Machine) -> str:
    """The version that the web process serves: of its program's folder."""
    started = machine.run(
        "readlink /proc/$(systemctl show --property=MainPID --value dalston-web)/exe; ls -l /opt/dalston/current\n"
    )
    return started.split()[-1].rpartition("/")[2]
