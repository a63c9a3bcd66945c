"""The part of kustomize that deploy/kubernetes uses, for machines without it: resources, namespace, images, replicas
and strategic merge patches. Anything else in a kustomization.yaml is an error. A test compares it with kustomize."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

Resource = dict[str, Any]
HEADER = {"apiVersion", "kind", "resources"}


def build(folder: Path) -> list[Resource]:
    """The resources of an overlay, as they would be applied."""
    config: dict[str, Any] = yaml.safe_load((folder / "kustomization.yaml").read_text())
    found: list[Resource] = []
    for name in config["resources"]:
        path = folder / name
        found += build(path) if path.is_dir() else [one for one in yaml.safe_load_all(path.read_text()) if one]
    for field, value in config.items():
        if field not in HEADER:
            STEPS[field](found, value)
    return found


def _patches(resources: list[Resource], patches: list[dict[str, Any]]) -> None:
    for patch in patches:
        target, change = patch["target"], yaml.safe_load(patch["patch"])
        [one] = [it for it in resources if (it["kind"], it["metadata"]["name"]) == (target["kind"], target["name"])]
        if change.get("$patch") == "delete":
            resources.remove(one)
        else:
            _merge(one, change)


def _merge(into: dict[str, Any], change: dict[str, Any]) -> None:
    for name, value in change.items():
        if value is None:
            into.pop(name, None)
        elif isinstance(value, dict) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        else:
            into[name] = value


def _namespace(resources: list[Resource], namespace: str) -> None:
    for resource in resources:
        resource["metadata"]["namespace"] = namespace


def _replicas(resources: list[Resource], counts: list[dict[str, Any]]) -> None:
    for count in counts:
        [one] = [it for it in resources if it["kind"] == "Deployment" and it["metadata"]["name"] == count["name"]]
        one["spec"]["replicas"] = count["count"]


def _images(resources: list[Resource], images: list[dict[str, str]]) -> None:
    names = {image["name"]: f"{image['newName']}:{image['newTag']}" for image in images}
    for resource in resources:
        for container in containers(resource):
            container["image"] = names.get(container["image"], container["image"])


def pod(resource: Resource) -> dict[str, Any]:
    """The spec of its pods; empty if it has none."""
    spec: dict[str, Any] = resource.get("spec", {}).get("template", {}).get("spec", {})
    return spec


def containers(resource: Resource) -> list[dict[str, Any]]:
    spec = pod(resource)
    return [*spec.get("initContainers", []), *spec.get("containers", [])]


STEPS: dict[str, Callable[[list[Resource], Any], None]] = {
    "namespace": _namespace,
    "images": _images,
    "replicas": _replicas,
    "patches": _patches,
}
