from django.db import migrations

# (table, column, constraint, what it refers to, what becomes of the row)
REFERENCES = [
    ('dalston_job_artifact', 'job_id', 'dalston_job_artifact_job_id_c9007d94_fk_dalston_job_id', 'dalston_job', 'SET NULL'),
    ('dalston_job_artifact', 'project_id', 'dalston_job_artifact_project_id_c44ba893_fk_dalston_project_id', 'dalston_project', 'CASCADE'),
    ('dalston_lane', 'project_id', 'dalston_lane_project_id_8169f525_fk_dalston_project_id', 'dalston_project', 'SET NULL'),
    ('dalston_api_token', 'created_by_id', 'dalston_api_token_created_by_id_b206a88f_fk_auth_user_id', 'auth_user', 'SET NULL'),
    ('dalston_identity', 'user_id', 'dalston_identity_user_id_c2a88bea_fk_auth_user_id', 'auth_user', 'CASCADE'),
]


def replaced(table: str, column: str, name: str, target: str, action: str) -> str:
    return (
        f'ALTER TABLE {table} DROP CONSTRAINT {name}, ADD CONSTRAINT {name}'
        f' FOREIGN KEY ({column}) REFERENCES {target} (id) {action} DEFERRABLE INITIALLY DEFERRED'
    )


class Migration(migrations.Migration):
    """The database itself does what Django's on_delete says: 0.1 deletes jobs, and doesn't know who refers to them."""

    dependencies = [
        ('dalston_queue', '0013_identity'),
    ]

    operations = [
        migrations.RunSQL(
            replaced(table, column, name, target, f'ON DELETE {action}'),
            replaced(table, column, name, target, ''),
        )
        for table, column, name, target, action in REFERENCES
    ]
