"""The project and the engine of a dead letter, for its patterns; open ones get them from their task."""

import django.db.models.deletion
from django.db import migrations, models

_FILL = """
    UPDATE dalston_dead_letter AS d SET project_id = t.project_id, engine_id = t.assigned_worker_id
    FROM dalston_task AS t WHERE t.id = d.task_id AND d.replayed_at IS NULL AND d.discarded_at IS NULL"""


class Migration(migrations.Migration):
    dependencies = [("dalston_queue", "0008_recoveries")]

    operations = [
        migrations.AddField(
            model_name="deadletter",
            name="engine_id",
            field=models.CharField(
                blank=True, db_default="", default="", help_text="that ran it last; empty if none did", max_length=200
            ),
        ),
        migrations.AddField(
            model_name="deadletter",
            name="project",
            field=models.ForeignKey(
                blank=True,
                db_constraint=False,
                db_index=False,
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="dalston_queue.project",
            ),
        ),
        migrations.RunSQL(_FILL, migrations.RunSQL.noop),
        migrations.AddIndex(
            model_name="deadletter",
            index=models.Index(
                condition=models.Q(("discarded_at__isnull", True), ("replayed_at__isnull", True)),
                fields=["project", "-created_at", "-id"],
                name="dead_letter_project",
            ),
        ),
    ]
