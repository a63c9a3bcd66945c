"""Indexes for the pages of dead letters: groups and lists cost the same however many letters are open."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("dalston_queue", "0010_samples"),
    ]

    operations = [
        migrations.RemoveIndex(
            model_name="deadletter",
            name="dead_letter_open",
        ),
        migrations.AddIndex(
            model_name="deadletter",
            index=models.Index(
                condition=models.Q(("discarded_at__isnull", True), ("replayed_at__isnull", True)),
                fields=["fingerprint", "-created_at", "-id"],
                name="dead_letter_group",
            ),
        ),
        migrations.AddIndex(
            model_name="deadletter",
            index=models.Index(
                condition=models.Q(("discarded_at__isnull", True), ("replayed_at__isnull", True)),
                fields=["-created_at", "-id"],
                name="dead_letter_newest",
            ),
        ),
    ]
