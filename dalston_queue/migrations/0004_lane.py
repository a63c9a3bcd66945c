import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('dalston_queue', '0003_retriable'),
    ]

    operations = [
        migrations.CreateModel(
            name='Lane',
            fields=[
                ('name', models.CharField(db_collation='C', max_length=800, primary_key=True, serialize=False)),
                ('queue', models.CharField(max_length=41)),
                ('used_at', models.DateTimeField(help_text='when a task was submitted to it, to the minute')),
                ('project', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='dalston_queue.project')),
            ],
            options={
                'db_table': 'dalston_lane',
                'indexes': [models.Index(fields=['queue'], name='lane_by_queue'), models.Index(fields=['used_at'], name='lane_by_use')],
            },
        ),
    ]
