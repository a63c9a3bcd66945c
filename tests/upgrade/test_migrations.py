"""Migrations since the last release only add: the released code must go on with the new tables."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.apps import apps
from django.db import connection, migrations, models
from django.db.migrations.operations.base import Operation
from django.db.models.fields import NOT_PROVIDED

from tests.conftest import ROOT
from tests.upgrade.releases import PREVIOUS, unpack

FOLDER = ROOT / "dalston_queue" / "migrations"
SINCE = sorted(path.stem for path in FOLDER.glob("[0-9]*.py") if path.stem > PREVIOUS.last_migration)

HARMLESS = (
    migrations.CreateModel,
    migrations.AddIndex,
    migrations.RemoveIndex,  # slower, not wrong
    migrations.RenameIndex,
    migrations.RemoveConstraint,
    migrations.AlterModelOptions,
    migrations.AlterModelManagers,
)
READ_BY_EYE = {
    "0005_fair_depth": "counts dalston_depth anew, under the lock that adding its columns has taken",
    "0009_dead_letter_patterns": "fills two new columns; the old code writes none of them",
    "0015_webhook_project": "fills a new column, which the old code leaves at its default",
    "0014_deletes_of_0_1": "lets the old code delete more: references of new tables do not stop it",
}
"""Migrations with SQL or Python of their own, and why the released code may run beside them."""


def problem(operation: Operation, name: str, new_models: set[str]) -> str:
    """Why the released code may fail beside this operation; empty if it goes on."""
    if isinstance(operation, migrations.RunSQL | migrations.RunPython):
        return "" if name in READ_BY_EYE else "has code of its own: say in READ_BY_EYE why the old code goes on"
    if isinstance(operation, migrations.SeparateDatabaseAndState):
        return next(filter(None, (problem(each, name, new_models) for each in operation.database_operations)), "")
    if isinstance(operation, HARMLESS):
        return ""
    if getattr(operation, "model_name", "").lower() in new_models:
        return ""  # of a table that the released code doesn't know
    if isinstance(operation, migrations.AddField):
        return _problem_of_a_field(operation.field)
    return f"{type(operation).__name__} changes what the old code reads or writes"


def _problem_of_a_field(field: models.Field[Any, Any]) -> str:
    """The old code inserts rows without it: Postgres must fill it in. Django's own `default` is in Python only."""
    if isinstance(field, models.ManyToManyField | models.GeneratedField):
        return ""
    if field.unique and not field.null:
        return "a unique column that the old code leaves out has the same value twice"
    if field.null or field.db_default is not NOT_PROVIDED:
        return ""
    return "a NOT NULL column without db_default: each INSERT of the old code fails"


def operations(name: str) -> Iterator[tuple[Operation, set[str]]]:
    """Its operations, each with the models that are new since the release."""
    new = {
        operation.name_lower
        for each in SINCE
        for operation in _migration(each).operations
        if isinstance(operation, migrations.CreateModel)
    }
    for operation in _migration(name).operations:
        yield operation, new


def _migration(name: str) -> type[migrations.Migration]:
    found: type[migrations.Migration] = importlib.import_module(f"dalston_queue.migrations.{name}").Migration
    return found


@pytest.mark.parametrize("name", SINCE)
def test_the_released_code_goes_on_after_the_migration(name: str) -> None:
    problems = [
        (operation.describe(), why) for operation, new in operations(name) if (why := problem(operation, name, new))
    ]
    assert problems == []


def test_each_migration_that_was_read_by_eye_still_has_code_of_its_own() -> None:
    own = {
        name
        for name in SINCE
        for operation, _ in operations(name)
        if not operation.reduces_to_sql or _is_own(operation)
    }
    assert READ_BY_EYE.keys() == own


def _is_own(operation: Operation) -> bool:
    return isinstance(operation, migrations.RunSQL | migrations.RunPython)


@pytest.mark.parametrize(
    "operation",
    [
        migrations.RemoveField("task", "error"),
        migrations.RenameField("task", "error", "problem"),
        migrations.AlterField("task", "error", models.CharField(max_length=10)),
        migrations.DeleteModel("task"),
        migrations.RenameModel("task", "work"),
        migrations.AlterModelTable("task", "work"),
        migrations.AddConstraint("task", models.CheckConstraint(condition=models.Q(attempt=1), name="one")),
        migrations.AddField("task", "wanted", models.TextField()),
        migrations.AddField("task", "wanted", models.TextField(default="")),
        migrations.AddField("task", "wanted", models.TextField(db_default="", unique=True)),
        migrations.RunSQL("DROP TABLE dalston_task"),
        migrations.SeparateDatabaseAndState([migrations.RemoveField("task", "error")], []),
    ],
    ids=lambda operation: type(operation).__name__,
)
def test_what_breaks_the_released_code_is_found(operation: Operation) -> None:
    assert problem(operation, "0999_new", {"alertstate"})


@pytest.mark.parametrize(
    "operation",
    [
        migrations.AddField("task", "wanted", models.TextField(null=True)),
        migrations.AddField("task", "wanted", models.TextField(db_default="")),
        migrations.AddField("alertstate", "wanted", models.TextField()),
        migrations.CreateModel("other", []),
    ],
)
def test_what_only_adds_is_accepted(operation: Operation) -> None:
    assert problem(operation, "0999_new", {"alertstate"}) == ""


def test_the_migrations_of_the_release_are_unchanged(tmp_path: Path) -> None:
    released = unpack(PREVIOUS, tmp_path / "old") / FOLDER.relative_to(ROOT)
    names = sorted(path.name for path in released.glob("[0-9]*.py"))
    assert names[-1] == f"{PREVIOUS.last_migration}.py"
    for name in names:
        assert (released / name).read_bytes() == (FOLDER / name).read_bytes(), name
    assert all(re.fullmatch(r"\d{4}_\w+", name) for name in SINCE)


@pytest.mark.django_db
def test_no_new_reference_stops_a_delete_of_the_released_code() -> None:
    """It deletes rows and does not check tables that it doesn't know: the database must do what `on_delete` says."""
    new_models = {name for each in SINCE for _, names in operations(each) for name in names}
    new = {
        (model._meta.db_table, field.column)
        for model in apps.get_app_config("dalston_queue").get_models()
        for field in model._meta.local_fields
        if isinstance(field, models.ForeignKey) and _is_enforced(field)
        if model._meta.model_name in new_models or (model._meta.model_name, field.name) in added_fields()
    }
    assert ("dalston_job_artifact", "job_id") in new and ("dalston_api_token", "created_by_id") in new
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.conrelid::regclass::text, a.attname FROM pg_constraint c"
            " JOIN pg_attribute a ON a.attrelid = c.conrelid AND a.attnum = c.conkey[1]"
            " WHERE c.contype = 'f' AND c.confdeltype IN ('n', 'c')"
        )
        assert new <= set(cursor.fetchall())


def _is_enforced(field: Any) -> bool:
    return bool(field.db_constraint)


def added_fields() -> set[tuple[str, str]]:
    return {
        (operation.model_name_lower, operation.name_lower)
        for each in SINCE
        for operation in _migration(each).operations
        if isinstance(operation, migrations.AddField)
    }
