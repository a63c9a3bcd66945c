"""An index of recoveries by time: the API counts those of the last hour."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dalston_queue", "0007_artifacts")]

    operations = [
        migrations.AddIndex(
            model_name="taskevent",
            index=models.Index(fields=["at"], name="event_recoveries", condition=models.Q(transition="recover")),
        ),
    ]
