"""The audit trail can't be emptied either: TRUNCATE fires no trigger of rows."""

from django.db import migrations

TABLES = ("dalston_operator_action", "dalston_audit_entry")
KEEP = tuple(
    f"CREATE TRIGGER audit_keep_all BEFORE TRUNCATE ON {table} FOR EACH STATEMENT EXECUTE FUNCTION dalston_audit_keep()"
    for table in TABLES
)
UNKEEP = tuple(f"DROP TRIGGER audit_keep_all ON {table}" for table in TABLES)


class Migration(migrations.Migration):
    dependencies = [
        ("dalston_queue", "0016_webhook_due_by_origin"),
    ]

    operations = [migrations.RunSQL(KEEP, UNKEEP)]
