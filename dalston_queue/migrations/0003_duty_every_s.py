from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("dalston_queue", "0002_recovery_and_schedules")]

    operations = [
        # The rows say what ran last and are written anew within a minute.
        migrations.RunSQL("DELETE FROM dalston_duty", migrations.RunSQL.noop),
        migrations.AddField(
            model_name="duty",
            name="every_s",
            field=models.FloatField(
                default=60.0, help_text="how often it should run; one that is older than twice this is late"
            ),
            preserve_default=False,
        ),
    ]
