"""The project of a webhook delivery: projects share the senders."""

from uuid import UUID

from django.db import migrations, models

_FILL = """
    UPDATE dalston_webhook_delivery d SET project_id = j.project_id
    FROM dalston_job j WHERE j.id = d.job_id AND d.state = 'pending'"""


class Migration(migrations.Migration):
    dependencies = [("dalston_queue", "0014_deletes_of_0_1")]

    operations = [
        migrations.AddField(
            model_name="webhookdelivery",
            name="project_id",
            field=models.UUIDField(db_default=UUID(int=0), default=UUID(int=0), editable=False),
        ),
        migrations.RunSQL(_FILL, migrations.RunSQL.noop),
        migrations.RemoveIndex(model_name="webhookdelivery", name="webhook_due"),
        migrations.RemoveIndex(model_name="webhookdelivery", name="webhook_due_by_origin"),
        migrations.AddIndex(
            model_name="webhookdelivery",
            index=models.Index(
                condition=models.Q(("state", "pending")),
                fields=["project_id", "next_at"],
                name="webhook_due_by_project",
            ),
        ),
        migrations.AddIndex(
            model_name="webhookdelivery",
            index=models.Index(
                condition=models.Q(("state", "pending")),
                fields=["project_id", "origin", "next_at"],
                name="webhook_due_by_receiver",
            ),
        ),
    ]
