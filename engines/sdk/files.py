"""Files of a task: artifacts in the store, large results that lie there, and a folder that goes with the task."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from dalston_queue.artifacts import Store, StoreError
from dalston_queue.artifacts.reference import stored_value
from dalston_queue.broker.protocol.validate import json_too_deep

from .outcomes import BrokenConfigError, Done, Failed, Outcome, text

LARGE_RESULT_BYTES = 8 * 1024
"""As JSON. Larger results go through the store, so that Redis and Postgres carry only their references."""
STAGES = "$stages"
"""The key of a result that asks for more stages: the server reads it, so such a result is never stored."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """Of one engine process."""

    store: Store | None
    scratch: Path
    large_result_bytes: float = LARGE_RESULT_BYTES

    def files_of(self, job_id: str, task_id: str, attempt: int, deliveries: int) -> Files:
        return Files(self, self.scratch / job_id / task_id / f"{attempt}-{deliveries}")

    def clean_up(self) -> None:
        """Removes what tasks have left that never ended, here or in a process of the same slot that died."""
        shutil.rmtree(self.scratch, ignore_errors=True)


class Files:
    """Of one delivery: attempt and delivery are in its folder's path, so no zombie writes into another's."""

    def __init__(self, workspace: Workspace, folder: Path) -> None:
        self._workspace, self._folder = workspace, folder

    @property
    def folder(self) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._folder

    @property
    def store(self) -> Store:
        if self._workspace.store is None:
            raise StoreError("this engine has no artifact store: set DALSTON_ARTIFACTS_URL (docs/artifacts.md)")
        return self._workspace.store

    def fetch(self, ref: str) -> Path:
        return self.store.path(ref, self._folder / "artifacts")

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def with_stored_result(self, outcome: Outcome) -> Outcome:
        """The outcome, with a reference instead of a large result. Never raises."""
        store = self._workspace.store
        if store is None or not isinstance(outcome, Done) or _asks_for_stages(outcome.result):
            return outcome
        try:
            encoded = msgspec.json.encode(outcome.result)
            if len(encoded) <= self._workspace.large_result_bytes or json_too_deep(encoded):
                return outcome
        except BaseException:  # noqa: BLE001 (an author's properties may raise anything; the settlement says it)
            return outcome
        try:
            with store.writer() as writer:
                writer.write(encoded)
                return Done(writer.commit().as_result())
        except Exception as error:  # noqa: BLE001 (a full disk, or S3 is away: another attempt may succeed)
            return Failed(f"the result could not be stored: {text(error)}", type(error).__name__, "")


def _asks_for_stages(result: object) -> bool:
    return isinstance(result, Mapping) and STAGES in result


class Inputs(Mapping[str, Any]):
    """Results of the parent stages, by stage. One that lies in the store is read when it is asked for."""

    def __init__(self, results: Mapping[str, Any], files: Files) -> None:
        self._results, self._files = dict(results), files

    def __getitem__(self, stage: str) -> Any:
        result = self._results[stage]
        ref = stored_value(result)
        if ref is None:
            return result
        value = self._results[stage] = msgspec.json.decode(self._files.store.read(ref))
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)

    def __repr__(self) -> str:
        return f"Inputs({self._results!r})"


def scratch_folder(root: str, engine_id: str, *, supervised: bool) -> Path:
    """Under a supervisor a slot has one process at a time, so its folder is known and left-overs are found again."""
    try:
        if root and supervised:
            folder = Path(root) / engine_id.rpartition(".")[0]
            folder.mkdir(parents=True, exist_ok=True)
            Path(tempfile.mkdtemp(dir=folder)).rmdir()  # at the start: otherwise each task would fail
            return folder
        return Path(tempfile.mkdtemp(prefix="dalston-engine-", dir=root or None))
    except OSError as error:
        where = root or "the folder for temporary files"
        raise BrokenConfigError(
            f"DALSTON_SCRATCH_DIR: {where} can't be written by the user with id {os.geteuid()}: {error.strerror}"
        ) from None
