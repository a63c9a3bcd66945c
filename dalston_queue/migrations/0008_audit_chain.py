"""The hash chain of the audit trail, and the triggers that write and keep it (audit_chain.sql)."""

from pathlib import Path

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

CHAIN = (Path(__file__).parent / "audit_chain.sql").read_text()
UNCHAIN = """
    DROP TRIGGER audit_keep ON dalston_audit_entry;
    DROP TRIGGER audit_keep ON dalston_operator_action;
    DROP TRIGGER audit_chain ON dalston_operator_action;
    DROP FUNCTION dalston_audit_keep, dalston_audit_chain, dalston_audit_finished, dalston_audit_begun,
        dalston_audit_append;"""


class Migration(migrations.Migration):
    dependencies = [
        ("dalston_queue", "0007_replay_batch"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                ("id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("fact", models.CharField(choices=[("begun", "begun"), ("finished", "finished")], max_length=8)),
                ("content", models.TextField(help_text="the fact as JSON, as it was hashed")),
                ("previous_hash", models.CharField(max_length=64)),
                ("hash", models.CharField(max_length=64)),
            ],
            options={
                "db_table": "dalston_audit_entry",
            },
        ),
        migrations.AddField(
            model_name="operatoraction",
            name="finished_at",
            field=models.DateTimeField(
                blank=True, help_text="empty: its process died in the middle, or it goes on right now", null=True
            ),
        ),
        migrations.AddIndex(
            model_name="operatoraction",
            index=models.Index(fields=["actor", "-id"], name="action_by_actor"),
        ),
        migrations.AddIndex(
            model_name="operatoraction",
            index=models.Index(fields=["action", "-id"], name="action_by_kind"),
        ),
        migrations.AddIndex(
            model_name="operatoraction",
            index=models.Index(fields=["at"], name="action_by_time"),
        ),
        migrations.AddField(
            model_name="auditentry",
            name="action",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="entries",
                to="dalston_queue.operatoraction",
            ),
        ),
        migrations.AddConstraint(
            model_name="auditentry",
            constraint=models.UniqueConstraint(fields=("action", "fact"), name="each_fact_once"),
        ),
        migrations.RunSQL(CHAIN, UNCHAIN),
    ]
