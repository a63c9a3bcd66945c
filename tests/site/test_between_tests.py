"""What one test leaves in the tables, the next does not find (tests/emptying.py): each of these is another's next."""

import pytest
from django.contrib.auth.models import Group
from django.db import connection

from dalston_queue.accounts.roles import Role
from dalston_queue.models import Project


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "rows", [10, 50_000, 1], ids=["a few rows are deleted", "many are truncated", "nothing is left"]
)
def test_tables_are_as_the_migrations_left_them(rows: int) -> None:
    assert not Project.objects.exists()
    assert set(Group.objects.values_list("name", flat=True)) == {role.value for role in Role}
    Group.objects.all().delete()
    Group.objects.create(name="a test's own")
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO dalston_project (id, name, created_at)"
            " SELECT gen_random_uuid(), repeat('x', 60) || n, now() FROM generate_series(1, %s) n",
            [rows],
        )
