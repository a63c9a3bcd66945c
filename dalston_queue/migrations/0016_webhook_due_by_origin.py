from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("dalston_queue", "0015_webhook_being_sent"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="webhookdelivery",
            index=models.Index(
                condition=models.Q(("state", "pending")),
                fields=["origin", "next_at"],
                name="webhook_due_by_origin",
            ),
        ),
    ]
