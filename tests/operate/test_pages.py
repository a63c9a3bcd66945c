"""What the operator's pages name exists: files, units, commands with their options, settings.

The commands themselves run in test_machine.py, which takes minutes."""

from __future__ import annotations

import re
import shlex
import subprocess
import tomllib

import pytest
from django.core.management import get_commands, load_command_class

from tests.conftest import ROOT
from tests.docs.blocks import Block, all_blocks, blocks_of

FOLDER = ROOT / "docs" / "operate"
PAGES = ("install", "upgrade", "backup", "failover", "checklist", "sizing", "uninstall")
BLOCKS = [block for block in all_blocks() if block.page in {f"docs/operate/{page}.md" for page in PAGES}]
SHELL = [block for block in BLOCKS if block.language == "sh"]
UNITS = {file.name: file.read_text() for file in (ROOT / "deploy" / "systemd").glob("*.service")}
INSTALL = "\n".join(blocks_of("docs/operate/install.md", "sh"))


def expanded(word: str) -> list[str]:
    """a{b,c} as a shell expands it."""
    found = re.search(r"\{([^{}]*,[^{}]*)\}", word)
    if not found:
        return [word]
    return [each for part in found[1].split(",") for each in expanded(word.replace(found[0], part, 1))]


@pytest.mark.parametrize("block", SHELL, ids=str)
def test_a_block_is_valid_shell(block: Block) -> None:
    done = subprocess.run(["bash", "-n"], input=block.text, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_files_of_the_clone_that_pages_name_exist() -> None:
    found = {
        each
        for block in BLOCKS
        for word in re.findall(r"\bdeploy/[^\s'\")]+|\bdist/requirements-[a-z]+\.lock", block.text)
        for each in expanded(word.replace("dist/", ""))
    }
    assert len(found) > 7 and not [name for name in found if not (ROOT / name).exists()]


def test_the_commands_of_manage_take_these_options() -> None:
    manage = re.compile(r"(?:^manage|dalston-manage --env-file \S+) ([a-z][^|>\n]*)", re.MULTILINE)
    called = [line for block in SHELL for line in manage.findall(block.text.replace("\\\n", ""))]
    assert len(called) > 8
    for line in called:
        name, *arguments = shlex.split(line)
        load_command_class(get_commands()[name], name).create_parser("manage.py", name).parse_args(arguments)


def test_settings_on_the_pages_are_settings() -> None:
    known = set(re.findall(r"^\| `(\w+)`", (ROOT / "docs" / "settings.md").read_text(), re.MULTILINE))
    files = [*(FOLDER / f"{page}.md" for page in PAGES), *(ROOT / "deploy" / "systemd").iterdir()]
    client = {"DALSTON_URL", "DALSTON_TOKEN", "DALSTON_SCRATCH_DIR", "DALSTON_MODELS_DIR"}
    named = {
        name for file in files for name in re.findall(r"\bDALSTON_[A-Z_]+|\bREDIS_URL|\bDATABASE_URL", file.read_text())
    }
    assert "REDIS_URL" in named and named - client <= known


def test_the_units_are_there_and_find_what_the_page_makes() -> None:
    wanted = {
        name
        for block in SHELL
        for name in re.findall(r"\bdalston-[a-z]+(?:@(?=\d))?", " ".join(re.findall(r"systemctl .*", block.text)))
    }
    assert wanted and not [name for name in wanted if f"{name}.service" not in UNITS]
    for name, unit in UNITS.items():
        assert "User=dalston\nGroup=dalston\n" in unit and "useradd --system" in INSTALL, name
        for file in re.findall(r"^EnvironmentFile=(\S+)", unit, re.MULTILINE):
            assert f"-m 600 /dev/null {file}\n" in INSTALL and f"cat >{file} " in INSTALL, name
        for start in re.findall(r"^ExecStart=(\S+)", unit, re.MULTILINE):
            assert start.startswith("/opt/dalston/current/bin/"), name
        for file in re.findall(r"--config (\S+)", unit):
            assert f"cat >{file} " in INSTALL, name
    stores = re.findall(r"DALSTON_ARTIFACTS_URL=file://(\S+)", INSTALL)
    writers = [unit for name, unit in UNITS.items() if "orchestrator" not in name]
    assert stores == ["/srv/dalston/artifacts"] * 2 and all("-/srv/dalston" in unit for unit in writers)


def test_the_version_is_the_one_of_this_clone() -> None:
    for project in (ROOT, ROOT / "client"):
        version = tomllib.loads((project / "pyproject.toml").read_text())["project"]["version"]
        assert f"\nVERSION={version}\n" in INSTALL


def test_the_user_of_a_node_is_that_of_its_page() -> None:
    (rules,) = blocks_of("docs/redis-keys.md", "")
    documented = rules.replace(">PASSWORD", ">NODE_PASSWORD").removeprefix("ACL SETUSER ").split()
    [node] = [row for row in (ROOT / "deploy/redis/users.acl").read_text().splitlines() if "dalston-node" in row]
    assert node.split() == ["user", *documented]
