"""Whether another attempt of a failed task may end differently, as its engine reported it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dalston_queue", "0002_queued_at")]

    operations = [
        migrations.AddField(
            model_name="task",
            name="error_retriable",
            field=models.BooleanField(blank=True, help_text="as its engine reported it", null=True),
        ),
        migrations.AddField(
            model_name="deadletter",
            name="retriable",
            field=models.BooleanField(db_default=True, help_text="another attempt may end differently"),
        ),
    ]
