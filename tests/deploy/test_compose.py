"""The compose file fits the Dockerfile, the settings and the commands of the project."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
import yaml

from dalston_site.declared import DECLARED
from supervisor.config import NodeConfig
from tests.conftest import ROOT

FOLDER = ROOT / "deploy" / "docker"
DOCKERFILE = (FOLDER / "Dockerfile").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"].startswith("dalston-")}
STAGES = re.findall(r"^FROM \S+ AS (\S+)$", DOCKERFILE, re.MULTILINE)
SETTINGS_PAGE = (ROOT / "docs" / "settings.md").read_text()


def stage(name: str) -> str:
    return DOCKERFILE.split(f" AS {name}\n")[1].split("\nFROM ")[0]


def test_all_processes_of_an_installation_are_there() -> None:
    assert SERVICES.keys() == {"postgres", "valkey", "migrate", "web", "orchestrator", "housekeeping", "node"}
    assert SERVICES["orchestrator"]["deploy"]["replicas"] == 2


def test_each_image_is_built_once_from_a_target_of_its_name() -> None:
    builds = {service["image"]: service["build"] for service in OURS.values() if "build" in service}
    assert builds.keys() == {service["image"] for service in OURS.values()}
    for image, build in builds.items():
        assert build["target"] in STAGES and image == f"dalston-{build['target']}"
        assert (FOLDER / build["context"] / build["dockerfile"]).samefile(FOLDER / "Dockerfile")
        declared = set(re.findall(r"\bPIP_\w+", DOCKERFILE))
        assert build["args"].keys() <= declared


def test_what_the_dockerfile_copies_is_in_its_context() -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for pattern in kept:
        assert list(ROOT.glob(pattern)), f"{pattern} of .dockerignore is not there"
    for copied in re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE):
        for source in copied.split():
            assert source == "." or ((ROOT / source).exists() and any(source.startswith(each) for each in kept))
    wheel = re.search(r"^packages = \[(.*)\]", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert wheel and set(re.findall(r'"(\w+)"', wheel[1])) <= kept


def test_every_setting_exists_and_no_secret_has_a_value() -> None:
    for name, service in OURS.items():
        for variable, value in service["environment"].items():
            assert variable in DECLARED or f"`{variable}`" in SETTINGS_PAGE, f"{name}: {variable}"
            if re.search(r"SECRET|PASSWORD|TOKEN", variable):
                assert re.fullmatch(r"\$\{\w+:\?.*\}", value), f"{name}: {variable} has a value of its own"
    assert not re.search(r"//[^$\s]*:[^$\s@]+@", yaml.safe_dump(COMPOSE)), "a password in an address"


def test_a_node_gets_redis_and_the_artifact_store_and_no_more() -> None:
    assert SERVICES["node"]["environment"].keys() == {"REDIS_URL", "DALSTON_ARTIFACTS_URL"}
    assert SERVICES["node"]["environment"].items() <= SERVICES["web"]["environment"].items()


def test_a_health_check_asks_the_port_that_the_process_opens() -> None:
    for name in ("orchestrator", "housekeeping"):
        _, _, port = SERVICES[name]["environment"]["DALSTON_METRICS_ADDRESS"].rpartition(":")
        assert SERVICES[name]["healthcheck"]["test"][-1] == port
    for target, port in {"server": "8000", "node": "9201"}.items():
        text = stage(target)
        assert f"EXPOSE {port}\n" in text
        assert re.search(rf'HEALTHCHECK .*"/opt/dalston/healthy.py", "{port}"\]', text)
    node = msgspec.convert(yaml.safe_load((FOLDER / "node.yaml").read_text()), NodeConfig)
    assert node.http.endswith(":9201")
    assert SERVICES["web"]["ports"] == ["127.0.0.1:8000:8000"], "it speaks plain HTTP"


@pytest.mark.parametrize("target", ["server", "node"])
def test_an_image_runs_as_a_user_by_number_and_takes_the_lock_of_its_role(target: str) -> None:
    assert "USER 10001:10001\n" in stage(target), "Kubernetes knows a number as not root"
    assert f"requirements-{target}.lock" in stage(f"{target}-programs")
    assert f"COPY --from={target}-programs /opt/dalston /opt/dalston" in stage(target)


def test_no_address_of_an_index_is_written_down() -> None:
    for file in (*FOLDER.iterdir(), ROOT / ".dockerignore"):
        assert not re.search(r"https?://(?!127\.0\.0\.1)", file.read_text()), file
