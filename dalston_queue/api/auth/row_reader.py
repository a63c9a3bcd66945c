"""Reads rows of a model with SQL written by hand, for the few questions that every request asks.

The ORM's `raw()` works out anew, for each query, which column belongs to which field and how it is converted. That
took longer than Postgres took to answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from django.db import connection
from django.db.models import JSONField, Model

M = TypeVar("M", bound=Model)


class RowReader(Generic[M]):
    """`columns` of the model under this alias, for a SELECT; whatever is selected behind them comes along."""

    def __init__(self, model: type[M], alias: str) -> None:
        fields = model._meta.concrete_fields  # noqa: SLF001 - Django documents it
        self._model = model
        self._names = [field.attname for field in fields]
        self._json = [place for place, field in enumerate(fields) if isinstance(field, JSONField)]
        self.columns = ", ".join(f'{alias}."{field.column}"' for field in fields)

    def first(self, query: str, arguments: Mapping[str, Any]) -> tuple[M, tuple[Any, ...]] | None:
        """The first row, and what was selected besides its columns."""
        with connection.cursor() as cursor:
            cursor.execute(query, arguments)
            row = cursor.fetchone()
        if row is None:
            return None
        values = list(row[: len(self._names)])
        for place in self._json:
            if values[place] is not None:
                values[place] = json.loads(values[place])
        return self._model.from_db("default", self._names, values), row[len(self._names) :]
