"""The view: inserts one row."""

from datetime import datetime
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.urls import path
from ninja import NinjaAPI, Schema, Status

from bench.bare.models import Row

api = NinjaAPI()


class RowIn(Schema):
    task_type: str
    parameters: dict[str, Any]


class RowOut(Schema):
    id: UUID
    task_type: str
    parameters: dict[str, Any]
    created_at: datetime


@api.post("/rows", response={201: RowOut})
def insert(request: HttpRequest, row: RowIn) -> Status[Row]:  # noqa: ARG001
    return Status(201, Row.objects.create(task_type=row.task_type, parameters=row.parameters))


urlpatterns = [path("api/", api.urls)]
