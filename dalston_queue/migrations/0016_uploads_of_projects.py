"""An index of the uploads of each project: what they take in the artifact store."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dalston_queue", "0015_webhook_project")]

    operations = [
        migrations.AddIndex(
            model_name="jobartifact",
            index=models.Index(
                condition=models.Q(("kind", "upload")),
                fields=["project", "ref"],
                include=["size"],
                name="artifact_uploads_of",
            ),
        ),
    ]
