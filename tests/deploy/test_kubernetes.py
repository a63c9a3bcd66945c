"""The manifests of deploy/kubernetes fit Kubernetes' schemas, the images, the settings, the probes and the API."""

from __future__ import annotations

import re
import shutil
import subprocess
from argparse import ArgumentParser
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import kubernetes_validate
import msgspec
import pytest
import yaml
from django.core.management import get_commands, load_command_class

from dalston_queue.api.schemas.scale import ScaleOut
from dalston_site.declared import DECLARED
from dalston_site.web.__main__ import parse
from supervisor.cli import add_node_arguments
from supervisor.config import NodeConfig
from tests.api.documented import OPERATIONS, ROUTES
from tests.conftest import ROOT
from tests.deploy.kustomize import Resource, build, containers, pod
from tests.upgrade.test_versions import VERSION

FOLDER = ROOT / "deploy" / "kubernetes"
OVERLAYS = sorted(path.name for path in (FOLDER / "overlays").iterdir())
KUBERNETES = ("1.29", "1.33")
"""The oldest one that the manifests are for, and a newer one."""
SETTINGS_PAGE = (ROOT / "docs" / "settings.md").read_text()

# KEDA's own definitions have no schema in Kubernetes: what its documentation requires, by hand.
KEDA = {
    "ScaledObject": {"scaleTargetRef", "triggers"},
    "TriggerAuthentication": {"secretTargetRef"},
}
METRICS_API = {"url", "valueLocation", "targetValue"}


@cache
def built(overlay: str) -> list[Resource]:
    return build(FOLDER / "overlays" / overlay)


def of_kind(overlay: str, *kinds: str) -> dict[str, Resource]:
    return {one["metadata"]["name"]: one for one in built(overlay) if one["kind"] in kinds}


def workloads(overlay: str) -> dict[str, Resource]:
    return {one["metadata"]["name"]: one for one in built(overlay) if pod(one)}


@pytest.mark.parametrize("overlay", OVERLAYS)
@pytest.mark.parametrize("version", KUBERNETES)
def test_each_resource_fits_the_schema_of_kubernetes(overlay: str, version: str) -> None:
    for resource in built(overlay):
        if resource["kind"] not in KEDA:
            kubernetes_validate.validate(resource, version, strict=True)


def test_a_field_that_kubernetes_does_not_know_is_found() -> None:
    broken = {**built("small")[0], "datum": {}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, KUBERNETES[0], strict=True)


@pytest.mark.skipif(
    shutil.which("kubectl") is None, reason="no kubectl here: tests/deploy/kustomize.py stands in for it"
)
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kustomize_makes_the_same_of_it(overlay: str) -> None:
    done = subprocess.run(
        ["kubectl", "kustomize", str(FOLDER / "overlays" / overlay)], capture_output=True, text=True, check=True
    )

    def sorted_(resources: list[Resource]) -> list[Resource]:
        return sorted(resources, key=lambda it: (it["kind"], it["metadata"]["name"]))

    assert sorted_(list(yaml.safe_load_all(done.stdout))) == sorted_(built(overlay))


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_pod_runs_as_no_root_with_probes_requests_and_a_read_only_image(overlay: str) -> None:
    found = workloads(overlay)
    assert len(found) == 5
    for name, resource in found.items():
        spec = pod(resource)
        assert spec["automountServiceAccountToken"] is False, name
        [container] = spec["containers"]
        security = {**spec["securityContext"], **container["securityContext"]}
        assert security["runAsNonRoot"] and security["runAsUser"] == 10001, name
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        for each in containers(resource):
            own = each["securityContext"]
            assert own["readOnlyRootFilesystem"] and not own["allowPrivilegeEscalation"], name
            assert own["capabilities"]["drop"] == ["ALL"]
            assert each["resources"]["requests"].keys() == {"cpu", "memory"}
        if resource["kind"] == "Job":
            continue
        [port] = container["ports"]
        assert port["containerPort"] == served_on(container), name
        for probe, path in {
            "livenessProbe": "/healthz",
            "startupProbe": "/healthz",
            "readinessProbe": "/readyz",
        }.items():
            assert container[probe]["httpGet"] == {"path": path, "port": port["name"]}, name
            assert container[probe]["timeoutSeconds"] >= 5, "/readyz takes 3 s while a server hangs"


def served_on(container: dict[str, Any]) -> int:
    """The port of its command, of its settings, or of the node's configuration."""
    if "--port" in container["command"]:
        return int(container["command"][container["command"].index("--port") + 1])
    address = next((it["value"] for it in container.get("env", []) if it["name"] == "DALSTON_METRICS_ADDRESS"), None)
    return int((address or node_config().http).rpartition(":")[2])


def node_config() -> NodeConfig:
    text = of_kind("small", "ConfigMap")["dalston-node"]["data"]["node.yaml"]
    return msgspec.convert(yaml.safe_load(text), NodeConfig)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_what_must_not_be_away_has_a_budget_that_lets_a_machine_be_drained(overlay: str) -> None:
    budgets = of_kind(overlay, "PodDisruptionBudget").values()
    guarded = {budget["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"] for budget in budgets}
    labels = {
        one["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"]
        for one in of_kind(overlay, "Deployment").values()
    }
    assert guarded == labels, "a budget counts the pods of a Deployment, and not those of a DaemonSet"
    assert all(budget["spec"]["maxUnavailable"] == 1 for budget in budgets)


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_pod_has_longer_to_stop_than_its_process_takes(overlay: str) -> None:
    for name, resource in workloads(overlay).items():
        [container] = pod(resource)["containers"]
        grace = pod(resource).get("terminationGracePeriodSeconds", 30)
        if name == "dalston-web":
            options = parse(container["command"][3:])
            assert container["lifecycle"]["preStop"]["exec"]["command"] == ["sleep", "5"]
            assert grace > 5 + options.drain_seconds + 20
        elif "node" in name:
            assert grace >= 300
            assert "kill -TERM 1" in container["lifecycle"]["preStop"]["exec"]["command"][-1]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_commands_and_settings_are_those_of_the_project(overlay: str) -> None:
    for resource in workloads(overlay).values():
        [container] = pod(resource)["containers"]
        program, command, *rest = container["command"]
        if program == "dalston-manage":
            if command == "runsupervisor":
                parser = ArgumentParser()
                add_node_arguments(parser)
                options = parser.parse_args(container["args"])
                assert options.state_dir == Path("/var/lib/dalston")
            else:
                load_command_class(get_commands()[command], command).create_parser("", command).parse_args(rest)
        else:
            assert (command, rest[0]) == ("-m", "dalston_site.web")
            parse(rest[1:])
        for variable in container.get("env", []):
            known = variable["name"] in DECLARED or f"`{variable['name']}`" in SETTINGS_PAGE
            assert known or re.match("AWS_|NVIDIA_|NODE_NAME", variable["name"]), variable
    for variable in of_kind(overlay, "ConfigMap")["dalston-server"]["data"]:
        assert variable in DECLARED or f"`{variable}`" in SETTINGS_PAGE


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_secrets_are_referred_to_and_a_node_gets_none_of_a_server(overlay: str) -> None:
    assert of_kind(overlay, "Secret") == {}
    assert not re.search(r"//[^\s/]*:[^\s/]*@|password", yaml.safe_dump(built(overlay)))
    for name, resource in workloads(overlay).items():
        secrets = set(re.findall(r"(?:secretRef|secretKeyRef)': \{[^}]*'name': '([a-z-]+)'", str(pod(resource))))
        assert secrets == {"dalston-node" if "node" in name else "dalston-server"}


@pytest.mark.parametrize("overlay", ["production", "keda"])
def test_the_images_have_the_version_of_the_project(overlay: str) -> None:
    images = {each["image"] for one in workloads(overlay).values() for each in containers(one)}
    assert images == {f"registry.example.com/dalston-{role}:{VERSION}" for role in ("server", "node")}


def test_keda_scales_the_deployment_of_nodes_by_an_endpoint_and_fields_that_exist() -> None:
    deployments, maps = of_kind("keda", "Deployment"), of_kind("keda", "ConfigMap")
    assert of_kind("keda", "DaemonSet") == {}
    [scaled] = of_kind("keda", "ScaledObject").values()
    [login] = of_kind("keda", "TriggerAuthentication").values()
    for one in (scaled, login):
        assert one["apiVersion"] == "keda.sh/v1alpha1" and one["spec"].keys() >= KEDA[one["kind"]]
    target = scaled["spec"]["scaleTargetRef"]
    assert target["kind"] == "Deployment" and "replicas" not in deployments[target["name"]]["spec"]
    assert 0 <= scaled["spec"]["minReplicaCount"] < scaled["spec"]["maxReplicaCount"]
    [secret] = login["spec"]["secretTargetRef"]
    assert secret.keys() == {"parameter", "name", "key"} and secret["parameter"] == "token"
    locations = {}
    for trigger in scaled["spec"]["triggers"]:
        metadata = trigger["metadata"]
        assert (trigger["type"], metadata["authMode"]) == ("metrics-api", "bearer")
        assert metadata.keys() >= METRICS_API and all(isinstance(value, str) for value in metadata.values())
        assert trigger["authenticationRef"]["name"] == login["metadata"]["name"]
        url = urlsplit(metadata["url"])
        route = ("GET", url.path.removeprefix("/api/v1"))
        assert ROUTES[route] == {"read"}
        parameters = {parameter["name"] for parameter in OPERATIONS[route]["parameters"]}
        asked = parse_qs(url.query, keep_blank_values=True).keys()
        assert asked <= parameters
        assert "capabilities" in asked, "a task that these nodes can't run would bring pods"
        assert url.scheme == "https" and url.hostname == maps["dalston-server"]["data"]["DALSTON_ALLOWED_HOSTS"]
        locations[trigger["name"]] = metadata["valueLocation"]
    assert set(locations.values()) == {"demand", "oldest_age_seconds"} <= ScaleOut.model_fields.keys()
    modifiers = scaled["spec"]["advanced"]["scalingModifiers"]
    assert set(re.findall(r"[a-z]\w*", modifiers["formula"])) == locations.keys() | {"min", "max"}
    fallback = scaled["spec"]["fallback"]
    assert fallback["behavior"] == "currentReplicasIfHigher", "while the API is away no busy pod goes"
    assert modifiers["metricType"] == "AverageValue" and modifiers["target"] == "1", "or there is no fallback"


@pytest.mark.parametrize(
    ("demand", "oldest_age", "pods"),
    [
        (0, 0, 0),
        (1, 0.2, 1),
        (1, 900, 1),  # the first pod takes long to come: no further one for the same task
        (8, 1, 2),
        (8, 240, 4),
        (1000, 5, 250),
        (3, 0, 1),  # all of them run
    ],
)
def test_keda_asks_for_pods_by_demand_and_age_and_never_for_more_than_there_are_tasks(
    demand: int, oldest_age: float, pods: int
) -> None:
    [scaled] = of_kind("keda", "ScaledObject").values()
    formula = scaled["spec"]["advanced"]["scalingModifiers"]["formula"]
    names = {"demand": demand, "oldest_age": oldest_age, "min": min, "max": max}
    assert ceil(eval(formula, {"__builtins__": {}}, names)) == pods  # arithmetic, the same in expr


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_pod_accepts_connections_on_the_ports_it_serves_and_metrics_only_from_prometheus(overlay: str) -> None:
    policies = of_kind(overlay, "NetworkPolicy")
    assert policies["dalston"]["spec"] == {
        "podSelector": {"matchLabels": {"app.kubernetes.io/part-of": "dalston"}},
        "policyTypes": ["Ingress"],
    }, "nothing, but for what the others allow"
    [web] = policies["dalston-web"]["spec"]["ingress"]
    [metrics] = policies["dalston-metrics"]["spec"]["ingress"]
    [selected] = policies["dalston-metrics"]["spec"]["podSelector"]["matchExpressions"]
    assert "from" not in web and list(metrics["from"][0]) == ["namespaceSelector"]
    for name, resource in workloads(overlay).items():
        labels = resource["spec"]["template"]["metadata"]["labels"]
        assert labels["app.kubernetes.io/part-of"] == "dalston"
        ports = {port["name"] for port in pod(resource)["containers"][0].get("ports", [])}
        if name == "dalston-web":
            assert ports == {port["port"] for port in web["ports"]}
        elif ports:
            assert labels["app.kubernetes.io/name"] in selected["values"]
            assert ports <= {port["port"] for port in metrics["ports"]}


def test_nodes_of_the_daemonset_and_of_keda_are_the_same_but_for_what_must_differ() -> None:
    fixed, scaled = of_kind("small", "DaemonSet")["dalston-node"], of_kind("keda", "Deployment")["dalston-node-scaled"]
    [mine], [other] = pod(fixed)["containers"], pod(scaled)["containers"]
    differ = {"env", "image"}
    assert {name: mine[name] for name in mine.keys() - differ} == {name: other[name] for name in other.keys() - differ}
    assert mine["env"][1:] == other["env"][1:]
    assert pod(fixed)["volumes"][0] == pod(scaled)["volumes"][0]
