import django.db.models.deletion
from django.db import migrations, models

# Every task that is not over is counted anew, with its project.
COUNT_AGAIN = """
    DELETE FROM dalston_depth;
    INSERT INTO dalston_depth (lane, tier, project_id, pending, ready, queued, running)
    SELECT lane, tier, project_id, count(*) FILTER (WHERE status IN ('pending', 'scheduled')),
           count(*) FILTER (WHERE status = 'ready'), count(*) FILTER (WHERE status = 'queued'),
           count(*) FILTER (WHERE status = 'running')
    FROM dalston_task WHERE finished_at IS NULL GROUP BY lane, tier, project_id;
"""


class Migration(migrations.Migration):

    dependencies = [
        ('dalston_queue', '0004_lane'),
    ]

    operations = [
        migrations.RemoveIndex(
            model_name='job',
            name='job_pending',
        ),
        migrations.AddField(
            model_name='depth',
            name='pending',
            field=models.IntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name='depth',
            name='project',
            field=models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='dalston_queue.project'),
        ),
        migrations.AddIndex(
            model_name='job',
            index=models.Index(condition=models.Q(('status', 'pending')), fields=['project', 'id'], name='job_pending'),
        ),
        migrations.RunSQL(COUNT_AGAIN, migrations.RunSQL.noop),
    ]
