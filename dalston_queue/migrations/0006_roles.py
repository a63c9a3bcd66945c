"""The three roles as groups. Who was staff may go on acting; superusers are admins anyway."""

from typing import Any

from django.conf import settings
from django.db import migrations

ROLES = ["viewer", "operator", "admin"]


def make_roles(apps: Any, _schema_editor: Any) -> None:
    groups = apps.get_model("auth", "Group").objects
    for name in ROLES:
        groups.get_or_create(name=name)
    operators = groups.get(name="operator")
    for user in apps.get_model("auth", "User").objects.filter(is_staff=True, is_superuser=False):
        user.groups.add(operators)


class Migration(migrations.Migration):
    dependencies = [
        ("dalston_queue", "0005_api_token_choices"),
        ("auth", "0012_alter_user_first_name_max_length"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    # Backwards the groups stay: people are in them.
    operations = [migrations.RunPython(make_roles, migrations.RunPython.noop)]
