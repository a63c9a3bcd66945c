"""What each project has stored. Housekeeping counts the files that are there, from the first run on."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dalston_queue", "0016_uploads_of_projects")]

    operations = [
        migrations.AddField(
            model_name="project",
            name="stored_bytes",
            field=models.BigIntegerField(
                db_default=0, default=0, editable=False, help_text="of its files in the artifact store, as last counted"
            ),
        ),
        migrations.AddField(
            model_name="jobartifact",
            name="counted",
            field=models.BooleanField(db_default=False, default=False, help_text="in stored_bytes of its project"),
        ),
        migrations.AlterField(
            model_name="jobartifact",
            name="size",
            field=models.BigIntegerField(
                help_text="in bytes; null: not known yet; 0: the file is not in the store", null=True
            ),
        ),
        migrations.RemoveIndex(model_name="jobartifact", name="artifact_uploads_of"),
        migrations.AddIndex(
            model_name="jobartifact",
            index=models.Index(
                condition=models.Q(("counted", False)),
                fields=["project", "ref"],
                include=["size"],
                name="artifact_uncounted",
            ),
        ),
    ]
