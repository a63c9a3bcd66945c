"""Retry state of alerts for mail and webhook apart: mail keeps the columns that both shared."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dalston_queue", "0011_token_created_by")]

    operations = [
        migrations.AlterField(
            model_name="alertstate",
            name="failures",
            field=models.PositiveSmallIntegerField(db_column="failures", default=0),
        ),
        migrations.RenameField(model_name="alertstate", old_name="failures", new_name="mail_failures"),
        migrations.AlterField(
            model_name="alertstate",
            name="next_try_at",
            field=models.DateTimeField(blank=True, db_column="next_try_at", null=True),
        ),
        migrations.RenameField(model_name="alertstate", old_name="next_try_at", new_name="mail_next_at"),
        migrations.AddField(
            model_name="alertstate",
            name="call_failures",
            field=models.PositiveSmallIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name="alertstate",
            name="call_next_at",
            field=models.DateTimeField(blank=True, null=True),
        ),
    ]
