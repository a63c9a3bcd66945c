"""Pages: addresses and queries that hold what Postgres can't store are refused, by none with an error of ours."""

from __future__ import annotations

import pytest
from django.test import Client

pytestmark = pytest.mark.django_db
ADMIN = "/admin/dalston_queue"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"{ADMIN}/node/%00/change/", 404),
        (f"{ADMIN}/leadership/%00/history/", 404),
        (f"{ADMIN}/engine/%00/delete/", 404),
        (f"{ADMIN}/operatoraction/?before=%00", 400),
        ("/queues/%00/", 404),
        ("/jobs/?q=%00", 400),
        ("/tasks/?payload=a:%00", 400),
        ("/", 200),
    ],
)
def test_a_nul_character_in_a_url_is_refused(admin_client: Client, path: str, status: int) -> None:
    for method in ("get", "head"):
        assert getattr(admin_client, method)(path).status_code == status
