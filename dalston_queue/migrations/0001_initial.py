"""The tables, the audit chain with its triggers (audit_chain.sql), and the three roles as groups."""

import dalston_queue.broker.protocol.types
import dalston_queue.ids
import dalston_queue.jobs.lifecycle.states
import dalston_queue.models.webhook
import django.contrib.postgres.fields
import django.core.validators
import django.db.models.deletion
import uuid
from django.conf import settings
from django.db import migrations, models
from pathlib import Path
from typing import Any

AUDIT_CHAIN = (Path(__file__).parent / "audit_chain.sql").read_text()
DROP_AUDIT_CHAIN = """
    DROP TRIGGER audit_keep_all ON dalston_audit_entry;
    DROP TRIGGER audit_keep_all ON dalston_operator_action;
    DROP TRIGGER audit_keep ON dalston_audit_entry;
    DROP TRIGGER audit_keep ON dalston_operator_action;
    DROP TRIGGER audit_chain ON dalston_operator_action;
    DROP FUNCTION dalston_audit_keep, dalston_audit_chain, dalston_audit_finished, dalston_audit_begun,
        dalston_audit_append;"""

# Rows that live for seconds, and move from state to state: cleaned long before a fifth of a table that holds history has
# changed (Postgres' default), or the indexes of what waits grow with what went through them.
AUTOVACUUM = """
    ALTER TABLE dalston_task SET (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 20000,
        autovacuum_analyze_scale_factor = 0.02, autovacuum_vacuum_cost_delay = 0);
    ALTER TABLE dalston_job SET (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 20000,
        autovacuum_vacuum_cost_delay = 0);
    ALTER TABLE dalston_depth SET (autovacuum_vacuum_scale_factor = 0.0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0);"""


def make_roles(apps: Any, _schema_editor: Any) -> None:
    for name in ("viewer", "operator", "admin"):
        apps.get_model("auth", "Group").objects.get_or_create(name=name)


class Migration(migrations.Migration):
    initial = True

    dependencies = [("auth", "0012_alter_user_first_name_max_length"), migrations.swappable_dependency(settings.AUTH_USER_MODEL)]

    operations = [
        migrations.CreateModel(
            name="ApiToken",
            fields=[
                ("id", models.UUIDField(default=dalston_queue.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=120)),
                ("digest", models.CharField(editable=False, max_length=64, unique=True)),
                ("scopes", django.contrib.postgres.fields.ArrayField(base_field=models.CharField(choices=[("submit", "submit"), ("read", "read"), ("operate", "operate"), ("worker", "worker")], max_length=20), size=None)),
                (
                    "rate_preset",
                    models.CharField(blank=True, choices=[("limited", "limited: a number of calls a minute and an hour"), ("listed", "listed: served longer when a queue is full")], default="", help_text="empty: no limit", max_length=20),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("expires_at", models.DateTimeField(blank=True, null=True)),
                ("last_used_at", models.DateTimeField(blank=True, editable=False, null=True)),
                ("revoked_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={"db_table": "dalston_api_token"},
        ),
        migrations.CreateModel(
            name="DeadLetter",
            fields=[
                ("id", models.UUIDField(default=dalston_queue.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ("queue", models.CharField(max_length=41)),
                ("task_type", models.CharField(blank=True, default="", max_length=64)),
                ("attempt", models.PositiveIntegerField(default=0, help_text="the attempt that died")),
                ("deliveries", models.PositiveSmallIntegerField(default=0)),
                ("cause", models.CharField(max_length=20)),
                ("error", models.TextField(blank=True, default="")),
                ("error_type", models.CharField(blank=True, default="", max_length=200)),
                ("traceback", models.TextField(blank=True, default="")),
                ("fingerprint", models.CharField(help_text="equal for errors of one kind", max_length=16)),
                ("evidence", models.JSONField(blank=True, help_text="from the supervisor: exit code, signal, log tail", null=True)),
                ("raw", models.JSONField(blank=True, help_text="the fields of an entry that could not be read", null=True)),
                ("created_at", models.DateTimeField()),
                ("replayed_at", models.DateTimeField(blank=True, null=True)),
                ("replayed_attempt", models.PositiveIntegerField(blank=True, help_text="the attempt the replay made", null=True)),
                ("discarded_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={"db_table": "dalston_dead_letter"},
        ),
        migrations.CreateModel(
            name="Duty",
            fields=[
                ("name", models.CharField(max_length=40, primary_key=True, serialize=False)),
                ("every_s", models.FloatField(help_text="interval; a duty is late when its last run is older than twice this")),
                ("last_run_at", models.DateTimeField()),
                ("duration_ms", models.PositiveIntegerField()),
                ("repaired", models.PositiveIntegerField(help_text="repairs of the last run")),
                ("total_repaired", models.BigIntegerField(default=0)),
                ("report", models.JSONField(default=dict, help_text="findings of the last run, by kind")),
                ("last_error", models.TextField(blank=True, default="", help_text="empty if the last run went well")),
                ("failures", models.PositiveIntegerField(default=0, help_text="failed runs in a row")),
                ("holder", models.CharField(help_text="the process that ran it", max_length=200)),
            ],
            options={"verbose_name_plural": "duties", "db_table": "dalston_duty"},
        ),
        migrations.CreateModel(
            name="Engine",
            fields=[
                ("id", models.CharField(max_length=200, primary_key=True, serialize=False)),
                ("node_id", models.CharField(db_index=True, max_length=100)),
                ("state", models.CharField(max_length=20)),
                ("queues", django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=41), default=list, size=None)),
                ("capabilities", django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=41), default=list, size=None)),
                ("capacity", models.PositiveSmallIntegerField(default=1)),
                ("facts", models.JSONField(default=dict, help_text="from its heartbeat: version, restarts, last exit, memory")),
                ("first_seen_at", models.DateTimeField()),
                ("last_seen_at", models.DateTimeField()),
            ],
            options={"db_table": "dalston_engine"},
        ),
        migrations.CreateModel(
            name="Leadership",
            fields=[
                ("role", models.CharField(max_length=20, primary_key=True, serialize=False)),
                ("term", models.BigIntegerField()),
                ("holder", models.CharField(help_text="the process that last acquired the lease", max_length=200)),
                ("since", models.DateTimeField()),
            ],
            options={"db_table": "dalston_leadership"},
        ),
        migrations.CreateModel(
            name="Limit",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("queue", models.CharField(blank=True, default="", help_text="empty: all queues together", max_length=41)),
                ("concurrency_key", models.CharField(blank=True, db_collation="C", default="", help_text="of the project; *: each key for itself", max_length=80)),
                ("max_in_flight", models.PositiveIntegerField(blank=True, help_text="0 stops it", null=True)),
                ("starts_per_minute", models.PositiveIntegerField(blank=True, null=True)),
                ("tokens", models.FloatField(default=0.0, editable=False)),
                ("filled_at", models.DateTimeField(editable=False, null=True)),
            ],
            options={"db_table": "dalston_limit"},
        ),
        migrations.CreateModel(
            name="Node",
            fields=[
                ("id", models.CharField(max_length=100, primary_key=True, serialize=False)),
                ("state", models.CharField(max_length=20)),
                ("facts", models.JSONField(default=dict, help_text="from its heartbeat: version, labels, GPUs")),
                ("first_seen_at", models.DateTimeField()),
                ("last_seen_at", models.DateTimeField()),
            ],
            options={"db_table": "dalston_node"},
        ),
        migrations.CreateModel(
            name="Project",
            fields=[
                ("id", models.UUIDField(default=dalston_queue.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ("name", models.SlugField(max_length=80, unique=True)),
                (
                    "weight",
                    models.PositiveSmallIntegerField(
                        default=1, help_text="its share of the slots while several projects wait: 3 gets three times as many as 1", validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(1000)]
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
            ],
            options={"db_table": "dalston_project"},
        ),
        migrations.CreateModel(
            name="ReplayBatch",
            fields=[
                ("id", models.UUIDField(default=dalston_queue.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ("actor", models.CharField(max_length=200)),
                ("reason", models.TextField(blank=True, default="")),
                ("filter", models.JSONField(blank=True, help_text="null if the dead letters were selected by id", null=True)),
                ("dead_letter_ids", django.contrib.postgres.fields.ArrayField(base_field=models.UUIDField(), help_text="the dead letters, in the order in which they are replayed", size=None)),
                ("parameters", models.JSONField(blank=True, help_text="instead of the tasks' own", null=True)),
                ("priority", models.CharField(blank=True, choices=[("high", "high"), ("medium", "medium"), ("low", "low")], default="", help_text="empty: unchanged", max_length=6)),
                ("rate_per_minute", models.PositiveIntegerField(blank=True, help_text="null: no limit", null=True)),
                ("state", models.CharField(choices=[("waiting", "waiting"), ("running", "running"), ("done", "done"), ("undone", "undone"), ("stopped", "stopped")], default="waiting", max_length=7)),
                ("matched", models.PositiveIntegerField(help_text="number of dead letters")),
                ("handled", models.PositiveIntegerField(default=0, help_text="dead letters processed so far")),
                ("replayed", models.PositiveIntegerField(default=0)),
                ("already", models.PositiveIntegerField(default=0, help_text="replayed earlier, together with another of their job")),
                ("refused", models.PositiveIntegerField(default=0)),
                ("error", models.TextField(blank=True, default="", help_text="why it was stopped, if no operator did")),
                ("ended_by", models.CharField(blank=True, default="", help_text="the actor that undid or stopped it", max_length=200)),
                ("created_at", models.DateTimeField()),
                ("starts_at", models.DateTimeField(help_text="until then it can be undone")),
                ("next_at", models.DateTimeField(help_text="when its next dead letters are due")),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={"db_table": "dalston_replay_batch"},
        ),
        migrations.CreateModel(
            name="Sample",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("kind", models.CharField(help_text="`queue`, `lane`, `dead_letters`, `gpu`", max_length=20)),
                ("name", models.CharField(help_text="name of the queue, lane or GPU", max_length=300)),
                ("at", models.DateTimeField(help_text="a whole minute")),
                ("numbers", models.JSONField(help_text="by name; unknown numbers are left out")),
            ],
            options={"db_table": "dalston_sample"},
        ),
        migrations.CreateModel(
            name="Schedule",
            fields=[
                ("id", models.UUIDField(default=dalston_queue.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ("name", models.SlugField(max_length=80)),
                ("cron", models.CharField(help_text="minute hour day month weekday, for instance `0 6 * * mon-fri`", max_length=100)),
                ("time_zone", models.CharField(default="UTC", help_text="for instance `Europe/London`", max_length=60)),
                ("priority", models.CharField(choices=[("high", "high"), ("medium", "medium"), ("low", "low")], default="medium", max_length=6)),
                ("stages", models.JSONField(help_text="as in POST /jobs: [{stage, queue, after, parameters, …}]")),
                ("enabled", models.BooleanField(default=True)),
                ("next_at", models.DateTimeField(editable=False, help_text="the next tick", null=True)),
                ("last_error", models.TextField(blank=True, default="", editable=False)),
            ],
            options={"db_table": "dalston_schedule"},
        ),
        migrations.CreateModel(
            name="StagePause",
            fields=[("queue", models.CharField(max_length=41, primary_key=True, serialize=False)), ("reason", models.TextField(blank=True, default="")), ("actor", models.CharField(max_length=200)), ("at", models.DateTimeField())],
            options={"db_table": "dalston_stage_pause"},
        ),
        migrations.CreateModel(
            name="Task",
            fields=[
                ("id", models.UUIDField(default=dalston_queue.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ("stage", models.CharField(help_text="its unique name in its job", max_length=64)),
                ("queue", models.CharField(help_text="the queue that engines claim it from", max_length=41)),
                ("task_type", models.CharField(max_length=64)),
                ("after", django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=64), default=list, help_text="stages that must be over first", size=None)),
                ("required", models.BooleanField(default=True)),
                ("weight", models.FloatField(default=1.0, help_text="its share of the job's progress")),
                (
                    "status",
                    models.CharField(
                        choices=[
                            ("pending", "pending"),
                            ("scheduled", "scheduled"),
                            ("ready", "ready"),
                            ("queued", "queued"),
                            ("running", "running"),
                            ("completed", "completed"),
                            ("failed", "failed"),
                            ("dead_letter", "dead_letter"),
                            ("cancelled", "cancelled"),
                            ("skipped", "skipped"),
                        ],
                        default="pending",
                        editable=False,
                        max_length=12,
                    ),
                ),
                ("priority", models.CharField(choices=[("high", "high"), ("medium", "medium"), ("low", "low")], default="medium", max_length=6)),
                ("effective_priority", models.CharField(choices=[("high", "high"), ("medium", "medium"), ("low", "low")], default="medium", max_length=6)),
                ("required_capabilities", django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=41), default=list, size=None)),
                ("lane", models.CharField(db_collation="C", help_text="its queue, with @ and its capabilities if it needs any", max_length=800)),
                ("tier", models.GeneratedField(db_persist=True, expression=models.Case(models.When(deliveries__gte=2, then=models.Value("suspect")), default=models.F("effective_priority")), output_field=models.CharField(max_length=9))),
                ("concurrency_key", models.CharField(blank=True, db_collation="C", default="", help_text="shares and limits count by it", max_length=80)),
                ("parameters", models.JSONField(default=dict)),
                ("timeout_seconds", models.PositiveIntegerField()),
                ("attempt", models.PositiveIntegerField(default=1)),
                ("event_seq", models.BigIntegerField(default=0)),
                ("max_retries", models.PositiveSmallIntegerField()),
                ("retry_count", models.PositiveSmallIntegerField(default=0)),
                ("deliveries", models.PositiveSmallIntegerField(default=0)),
                ("node_losses", models.PositiveSmallIntegerField(default=0)),
                ("assigned_worker_id", models.CharField(blank=True, default="", max_length=200)),
                ("result", models.JSONField(blank=True, null=True)),
                ("error", models.TextField(blank=True, default="")),
                ("error_type", models.CharField(blank=True, default="", max_length=200)),
                ("error_cause", models.CharField(blank=True, default="", max_length=20)),
                ("created_at", models.DateTimeField()),
                ("scheduled_at", models.DateTimeField(blank=True, help_text="not before this time", null=True)),
                ("first_enqueued_at", models.DateTimeField(blank=True, help_text="when it was READY for the first time; its place and its ageing go by it", null=True)),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("cancel_requested_at", models.DateTimeField(blank=True, null=True)),
                ("cancel_sent_at", models.DateTimeField(blank=True, help_text="when its engine was asked to stop", null=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={"db_table": "dalston_task"},
        ),
        migrations.CreateModel(
            name="TaskEvent",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("transition", models.CharField(help_text="its name in the transition table", max_length=12)),
                (
                    "from_status",
                    models.CharField(
                        choices=[
                            ("pending", "pending"),
                            ("scheduled", "scheduled"),
                            ("ready", "ready"),
                            ("queued", "queued"),
                            ("running", "running"),
                            ("completed", "completed"),
                            ("failed", "failed"),
                            ("dead_letter", "dead_letter"),
                            ("cancelled", "cancelled"),
                            ("skipped", "skipped"),
                        ],
                        max_length=12,
                    ),
                ),
                (
                    "to_status",
                    models.CharField(
                        choices=[
                            ("pending", "pending"),
                            ("scheduled", "scheduled"),
                            ("ready", "ready"),
                            ("queued", "queued"),
                            ("running", "running"),
                            ("completed", "completed"),
                            ("failed", "failed"),
                            ("dead_letter", "dead_letter"),
                            ("cancelled", "cancelled"),
                            ("skipped", "skipped"),
                        ],
                        max_length=12,
                    ),
                ),
                ("attempt", models.PositiveIntegerField(help_text="the attempt after the transition")),
                ("deliveries", models.PositiveSmallIntegerField()),
                ("engine_id", models.CharField(blank=True, default="", max_length=200)),
                ("cause", models.CharField(blank=True, default="", max_length=20)),
                ("message", models.TextField(blank=True, default="")),
                ("at", models.DateTimeField()),
            ],
            options={"db_table": "dalston_task_event"},
        ),
        migrations.CreateModel(
            name="WebhookDelivery",
            fields=[
                ("id", models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ("url", models.TextField()),
                ("origin", models.TextField(help_text="scheme, host and port: the limit of requests at a time counts by it")),
                ("status", models.CharField(choices=[("pending", "pending"), ("running", "running"), ("cancelling", "cancelling"), ("completed", "completed"), ("failed", "failed"), ("cancelled", "cancelled")], max_length=12)),
                ("error", models.TextField(blank=True, default="", help_text="why the job failed")),
                ("finished_at", models.DateTimeField()),
                ("state", models.CharField(choices=[("pending", "pending"), ("delivered", "delivered"), ("gave_up", "gave_up")], default="pending", max_length=12)),
                ("attempts", models.PositiveSmallIntegerField(default=0)),
                ("next_at", models.DateTimeField(help_text="when it is due; while it is being sent, when it is due again")),
                ("sending_until", models.DateTimeField(blank=True, help_text="an orchestrator is sending it", null=True)),
                ("last_code", models.PositiveSmallIntegerField(blank=True, help_text="the receiver's last HTTP status", null=True)),
                ("last_error", models.TextField(blank=True, default="")),
                ("delivered_at", models.DateTimeField(blank=True, null=True)),
            ],
            options={"verbose_name_plural": "webhook deliveries", "db_table": "dalston_webhook_delivery"},
        ),
        migrations.CreateModel(
            name="Depth",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("lane", models.CharField(db_collation="C", max_length=800)),
                ("tier", models.CharField(max_length=9)),
                ("ready", models.IntegerField()),
                ("queued", models.IntegerField()),
                ("running", models.IntegerField()),
            ],
            options={"db_table": "dalston_depth", "indexes": [models.Index(fields=["lane"], name="depth_by_lane")]},
        ),
        migrations.CreateModel(
            name="Job",
            fields=[
                ("id", models.UUIDField(default=dalston_queue.ids.uuid7, editable=False, primary_key=True, serialize=False)),
                ("name", models.CharField(help_text="the pipeline's name, or the task type of a job of one", max_length=120)),
                (
                    "status",
                    models.CharField(
                        choices=[("pending", "pending"), ("running", "running"), ("cancelling", "cancelling"), ("completed", "completed"), ("failed", "failed"), ("cancelled", "cancelled")], default="pending", editable=False, max_length=12
                    ),
                ),
                ("priority", models.CharField(choices=[("high", "high"), ("medium", "medium"), ("low", "low")], default="medium", max_length=6)),
                ("parameters", models.JSONField(default=dict)),
                ("trace_id", models.CharField(max_length=64)),
                ("callback_url", models.TextField(blank=True, db_default="", default="", help_text="called when the job is over")),
                ("progress", models.FloatField(default=0.0, help_text="weighted share of its tasks that are over, 0 to 1")),
                ("error", models.TextField(blank=True, default="", help_text="why it failed, in one sentence")),
                ("created_at", models.DateTimeField()),
                ("started_at", models.DateTimeField(blank=True, null=True)),
                ("cancel_requested_at", models.DateTimeField(blank=True, null=True)),
                ("finished_at", models.DateTimeField(blank=True, null=True)),
                ("token", models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, to="dalston_queue.apitoken")),
            ],
            options={"db_table": "dalston_job"},
        ),
        migrations.CreateModel(
            name="IdempotencyKey",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("key", models.CharField(max_length=200)),
                ("body_digest", models.CharField(help_text="SHA-256 of the request", max_length=64)),
                ("created_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField(db_index=True)),
                ("job", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="idempotency_keys", to="dalston_queue.job")),
            ],
            options={"db_table": "dalston_idempotency_key"},
        ),
        migrations.CreateModel(
            name="LoginAttempt",
            fields=[("id", models.BigAutoField(primary_key=True, serialize=False)), ("at", models.DateTimeField()), ("account", models.CharField(max_length=64)), ("address", models.CharField(max_length=64))],
            options={"db_table": "dalston_login_attempt", "indexes": [models.Index(fields=["account", "at"], name="login_by_account"), models.Index(fields=["address", "at"], name="login_by_address")]},
        ),
        migrations.CreateModel(
            name="OperatorAction",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("at", models.DateTimeField()),
                ("actor", models.CharField(max_length=200)),
                ("action", models.CharField(help_text="for instance `job.cancel`, `dead_letter.replay`, `stage.pause`", max_length=40)),
                ("target", models.CharField(help_text="the id of the target", max_length=200)),
                ("reason", models.TextField(blank=True, default="")),
                ("before", models.JSONField(blank=True, null=True)),
                ("after", models.JSONField(blank=True, null=True)),
                ("finished_at", models.DateTimeField(blank=True, help_text="empty: in progress, or its process died", null=True)),
                ("token", models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to="dalston_queue.apitoken")),
                ("user", models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
            ],
            options={"db_table": "dalston_operator_action"},
        ),
        migrations.CreateModel(
            name="AuditEntry",
            fields=[
                ("id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("fact", models.CharField(choices=[("begun", "begun"), ("finished", "finished")], max_length=8)),
                ("content", models.TextField(help_text="the fact as JSON, as it was hashed")),
                ("previous_hash", models.CharField(max_length=64)),
                ("hash", models.CharField(max_length=64)),
                ("action", models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name="entries", to="dalston_queue.operatoraction")),
            ],
            options={"db_table": "dalston_audit_entry"},
        ),
        migrations.CreateModel(
            name="WebhookSecret",
            fields=[
                ("project", models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name="webhook_secret", serialize=False, to="dalston_queue.project")),
                ("text", models.CharField(editable=False, max_length=80)),
                ("created_at", models.DateTimeField()),
            ],
            options={"db_table": "dalston_webhook_secret"},
        ),
        migrations.AddConstraint(model_name="project", constraint=models.CheckConstraint(condition=models.Q(("weight__range", (1, 1000))), name="project_weight_in_range")),
        migrations.AddField(model_name="limit", name="project", field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name="limits", to="dalston_queue.project")),
        migrations.AddField(model_name="job", name="project", field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="jobs", to="dalston_queue.project")),
        migrations.AddField(model_name="idempotencykey", name="project", field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, to="dalston_queue.project")),
        migrations.AddField(model_name="apitoken", name="project", field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="tokens", to="dalston_queue.project")),
        migrations.AddField(model_name="replaybatch", name="token", field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to="dalston_queue.apitoken")),
        migrations.AddField(model_name="replaybatch", name="user", field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, to=settings.AUTH_USER_MODEL)),
        migrations.AddIndex(model_name="sample", index=models.Index(fields=["at"], name="sample_by_age")),
        migrations.AddConstraint(model_name="sample", constraint=models.UniqueConstraint(fields=("kind", "at", "name"), name="one_sample_a_minute")),
        migrations.AddField(model_name="schedule", name="last_job", field=models.ForeignKey(blank=True, db_index=False, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, to="dalston_queue.job")),
        migrations.AddField(model_name="schedule", name="project", field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="schedules", to="dalston_queue.project")),
        migrations.AddField(model_name="task", name="job", field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="tasks", to="dalston_queue.job")),
        migrations.AddField(model_name="task", name="project", field=models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="dalston_queue.project")),
        migrations.AddField(model_name="deadletter", name="task", field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name="dead_letters", to="dalston_queue.task")),
        migrations.AddField(model_name="taskevent", name="task", field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="events", to="dalston_queue.task")),
        migrations.AddField(model_name="webhookdelivery", name="job", field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name="webhooks", to="dalston_queue.job")),
        migrations.AddIndex(model_name="operatoraction", index=models.Index(fields=["target", "-id"], name="action_by_target")),
        migrations.AddIndex(model_name="operatoraction", index=models.Index(fields=["actor", "-id"], name="action_by_actor")),
        migrations.AddIndex(model_name="operatoraction", index=models.Index(fields=["action", "-id"], name="action_by_kind")),
        migrations.AddIndex(model_name="operatoraction", index=models.Index(fields=["at"], name="action_by_time")),
        migrations.AddConstraint(model_name="auditentry", constraint=models.UniqueConstraint(fields=("action", "fact"), name="each_fact_once")),
        migrations.AddConstraint(model_name="limit", constraint=models.UniqueConstraint(fields=("queue", "project", "concurrency_key"), name="one_limit_each", nulls_distinct=False)),
        migrations.AddConstraint(model_name="limit", constraint=models.CheckConstraint(condition=models.Q(models.Q(("queue", ""), _negated=True), ("project__isnull", False), _connector="OR"), name="limit_names_queue_or_project")),
        migrations.AddConstraint(model_name="limit", constraint=models.CheckConstraint(condition=models.Q(("concurrency_key", ""), ("project__isnull", False), _connector="OR"), name="limit_key_has_project")),
        migrations.AddConstraint(model_name="limit", constraint=models.CheckConstraint(condition=models.Q(("max_in_flight__isnull", False), ("starts_per_minute__isnull", False), _connector="OR"), name="limit_limits_something")),
        migrations.AddConstraint(
            model_name="limit", constraint=models.CheckConstraint(condition=models.Q(models.Q(("concurrency_key", "*"), _negated=True), ("starts_per_minute__isnull", True), _connector="OR"), name="limit_of_each_key_in_flight_only")
        ),
        migrations.AddConstraint(model_name="limit", constraint=models.CheckConstraint(condition=models.Q(("starts_per_minute__isnull", True), ("starts_per_minute__gt", 0), _connector="OR"), name="limit_starts_above_zero")),
        migrations.AddIndex(model_name="job", index=models.Index(fields=["project", "-id"], name="job_by_project")),
        migrations.AddIndex(model_name="job", index=models.Index(condition=models.Q(("status", "pending")), fields=["id"], name="job_pending")),
        migrations.AddIndex(model_name="job", index=models.Index(condition=models.Q(("status__in", ["running", "cancelling"])), fields=["id"], name="job_live")),
        migrations.AddIndex(model_name="job", index=models.Index(condition=models.Q(("status__in", ["failed", "cancelled"])), fields=["-id"], name="job_ended_badly")),
        migrations.AddIndex(model_name="job", index=models.Index(condition=models.Q(("finished_at__isnull", False)), fields=["finished_at"], name="job_finished")),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "status__in",
                        [
                            dalston_queue.jobs.lifecycle.states.JobStatus["CANCELLED"],
                            dalston_queue.jobs.lifecycle.states.JobStatus["CANCELLING"],
                            dalston_queue.jobs.lifecycle.states.JobStatus["COMPLETED"],
                            dalston_queue.jobs.lifecycle.states.JobStatus["FAILED"],
                            dalston_queue.jobs.lifecycle.states.JobStatus["PENDING"],
                            dalston_queue.jobs.lifecycle.states.JobStatus["RUNNING"],
                        ],
                    )
                ),
                name="job_status_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=models.Q(("priority__in", [dalston_queue.broker.protocol.types.Priority["HIGH"], dalston_queue.broker.protocol.types.Priority["LOW"], dalston_queue.broker.protocol.types.Priority["MEDIUM"]])),
                name="job_priority_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="job",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("status__in", [dalston_queue.jobs.lifecycle.states.JobStatus["CANCELLED"], dalston_queue.jobs.lifecycle.states.JobStatus["COMPLETED"], dalston_queue.jobs.lifecycle.states.JobStatus["FAILED"]]),
                        ("finished_at__isnull", False),
                    ),
                    models.Q(
                        models.Q(
                            ("status__in", [dalston_queue.jobs.lifecycle.states.JobStatus["CANCELLED"], dalston_queue.jobs.lifecycle.states.JobStatus["COMPLETED"], dalston_queue.jobs.lifecycle.states.JobStatus["FAILED"]]), _negated=True
                        ),
                        models.Q(("finished_at__isnull", False), _negated=True),
                    ),
                    _connector="OR",
                ),
                name="job_over_has_time",
            ),
        ),
        migrations.AddConstraint(model_name="idempotencykey", constraint=models.UniqueConstraint(fields=("project", "key"), name="one_job_per_key")),
        migrations.AddIndex(model_name="replaybatch", index=models.Index(condition=models.Q(("state__in", ("waiting", "running"))), fields=["next_at"], name="replay_batch_due")),
        migrations.AddConstraint(model_name="replaybatch", constraint=models.CheckConstraint(condition=models.Q(("state__in", ["done", "running", "stopped", "undone", "waiting"])), name="replay_batch_state_known")),
        migrations.AddConstraint(model_name="replaybatch", constraint=models.CheckConstraint(condition=models.Q(("priority__in", ["", "high", "low", "medium"])), name="replay_batch_priority_known")),
        migrations.AddConstraint(model_name="replaybatch", constraint=models.CheckConstraint(condition=models.Q(("rate_per_minute__gt", 0)), name="replay_batch_rate")),
        migrations.AddConstraint(
            model_name="replaybatch",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state__in", ["done", "stopped", "undone"]), ("finished_at__isnull", False)),
                    models.Q(models.Q(("state__in", ["done", "stopped", "undone"]), _negated=True), models.Q(("finished_at__isnull", False), _negated=True)),
                    _connector="OR",
                ),
                name="replay_batch_over_has_time",
            ),
        ),
        migrations.AddIndex(model_name="schedule", index=models.Index(condition=models.Q(("enabled", True)), fields=["next_at"], name="schedule_due")),
        migrations.AddConstraint(model_name="schedule", constraint=models.UniqueConstraint(fields=("project", "name"), name="one_schedule_per_name")),
        migrations.AddConstraint(
            model_name="schedule",
            constraint=models.CheckConstraint(
                condition=models.Q(("priority__in", [dalston_queue.broker.protocol.types.Priority["HIGH"], dalston_queue.broker.protocol.types.Priority["LOW"], dalston_queue.broker.protocol.types.Priority["MEDIUM"]])),
                name="schedule_priority_known",
            ),
        ),
        migrations.AddIndex(model_name="task", index=models.Index(condition=models.Q(("status", "pending")), fields=["job"], name="task_pending")),
        migrations.AddIndex(model_name="task", index=models.Index(condition=models.Q(("status", "ready")), fields=["lane", "tier", "project", "concurrency_key", "first_enqueued_at", "id"], name="task_ready_by_group")),
        migrations.AddIndex(model_name="task", index=models.Index(condition=models.Q(("status", "ready")), fields=["lane", "tier", "first_enqueued_at", "id"], name="task_ready_by_age")),
        migrations.AddIndex(model_name="task", index=models.Index(condition=models.Q(("status", "scheduled")), fields=["scheduled_at"], name="task_scheduled")),
        migrations.AddIndex(model_name="task", index=models.Index(condition=models.Q(("status__in", ["queued", "running"])), fields=["queue", "project", "concurrency_key", "id"], name="task_in_flight")),
        migrations.AddIndex(model_name="task", index=models.Index(condition=models.Q(("status__in", ["queued", "running"]), ("cancel_requested_at__isnull", False)), fields=["id"], name="task_stopping")),
        migrations.AddIndex(model_name="task", index=models.Index(condition=models.Q(("finished_at__isnull", False)), fields=["finished_at"], name="task_finished")),
        migrations.AddConstraint(model_name="task", constraint=models.UniqueConstraint(fields=("job", "stage"), name="one_task_per_stage")),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    (
                        "status__in",
                        [
                            dalston_queue.jobs.lifecycle.states.TaskStatus["CANCELLED"],
                            dalston_queue.jobs.lifecycle.states.TaskStatus["COMPLETED"],
                            dalston_queue.jobs.lifecycle.states.TaskStatus["DEAD_LETTER"],
                            dalston_queue.jobs.lifecycle.states.TaskStatus["FAILED"],
                            dalston_queue.jobs.lifecycle.states.TaskStatus["PENDING"],
                            dalston_queue.jobs.lifecycle.states.TaskStatus["QUEUED"],
                            dalston_queue.jobs.lifecycle.states.TaskStatus["READY"],
                            dalston_queue.jobs.lifecycle.states.TaskStatus["RUNNING"],
                            dalston_queue.jobs.lifecycle.states.TaskStatus["SCHEDULED"],
                            dalston_queue.jobs.lifecycle.states.TaskStatus["SKIPPED"],
                        ],
                    )
                ),
                name="task_status_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.CheckConstraint(
                condition=models.Q(("priority__in", [dalston_queue.broker.protocol.types.Priority["HIGH"], dalston_queue.broker.protocol.types.Priority["LOW"], dalston_queue.broker.protocol.types.Priority["MEDIUM"]])),
                name="task_priority_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.CheckConstraint(
                condition=models.Q(("effective_priority__in", [dalston_queue.broker.protocol.types.Priority["HIGH"], dalston_queue.broker.protocol.types.Priority["LOW"], dalston_queue.broker.protocol.types.Priority["MEDIUM"]])),
                name="task_effective_priority_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="task",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        (
                            "status__in",
                            [
                                dalston_queue.jobs.lifecycle.states.TaskStatus["CANCELLED"],
                                dalston_queue.jobs.lifecycle.states.TaskStatus["COMPLETED"],
                                dalston_queue.jobs.lifecycle.states.TaskStatus["DEAD_LETTER"],
                                dalston_queue.jobs.lifecycle.states.TaskStatus["FAILED"],
                                dalston_queue.jobs.lifecycle.states.TaskStatus["SKIPPED"],
                            ],
                        ),
                        ("finished_at__isnull", False),
                    ),
                    models.Q(
                        models.Q(
                            (
                                "status__in",
                                [
                                    dalston_queue.jobs.lifecycle.states.TaskStatus["CANCELLED"],
                                    dalston_queue.jobs.lifecycle.states.TaskStatus["COMPLETED"],
                                    dalston_queue.jobs.lifecycle.states.TaskStatus["DEAD_LETTER"],
                                    dalston_queue.jobs.lifecycle.states.TaskStatus["FAILED"],
                                    dalston_queue.jobs.lifecycle.states.TaskStatus["SKIPPED"],
                                ],
                            ),
                            _negated=True,
                        ),
                        models.Q(("finished_at__isnull", False), _negated=True),
                    ),
                    _connector="OR",
                ),
                name="task_over_has_time",
            ),
        ),
        migrations.AddConstraint(model_name="task", constraint=models.CheckConstraint(condition=models.Q(("attempt__gte", 1)), name="task_attempt_from_one")),
        migrations.AddConstraint(model_name="task", constraint=models.CheckConstraint(condition=models.Q(("weight__gt", 0)), name="task_weight_positive")),
        migrations.AddConstraint(model_name="task", constraint=models.CheckConstraint(condition=models.Q(("timeout_seconds__gt", 0)), name="task_timeout_positive")),
        migrations.AddConstraint(model_name="task", constraint=models.CheckConstraint(condition=models.Q(models.Q(("status", "scheduled"), _negated=True), ("scheduled_at__isnull", False), _connector="OR"), name="task_scheduled_has_time")),
        migrations.AddIndex(model_name="deadletter", index=models.Index(condition=models.Q(("discarded_at__isnull", True), ("replayed_at__isnull", True)), fields=["fingerprint", "-created_at", "-id"], name="dead_letter_group")),
        migrations.AddIndex(model_name="deadletter", index=models.Index(condition=models.Q(("discarded_at__isnull", True), ("replayed_at__isnull", True)), fields=["-created_at", "-id"], name="dead_letter_newest")),
        migrations.AddIndex(model_name="deadletter", index=models.Index(fields=["created_at"], name="dead_letter_by_age")),
        migrations.AddConstraint(model_name="deadletter", constraint=models.UniqueConstraint(condition=models.Q(("discarded_at__isnull", True), ("replayed_at__isnull", True)), fields=("task",), name="one_open_dead_letter")),
        migrations.AddIndex(model_name="taskevent", index=models.Index(fields=["task", "id"], name="event_by_task")),
        migrations.AddIndex(model_name="webhookdelivery", index=models.Index(condition=models.Q(("state", "pending")), fields=["next_at"], name="webhook_due")),
        migrations.AddIndex(model_name="webhookdelivery", index=models.Index(condition=models.Q(("state", "pending")), fields=["origin", "next_at"], name="webhook_due_by_origin")),
        migrations.AddIndex(model_name="webhookdelivery", index=models.Index(condition=models.Q(("sending_until__isnull", False)), fields=["origin", "sending_until"], name="webhook_being_sent")),
        migrations.AddIndex(model_name="webhookdelivery", index=models.Index(fields=["job", "finished_at"], name="webhook_by_job")),
        migrations.AddConstraint(
            model_name="webhookdelivery",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", [dalston_queue.models.webhook.DeliveryState["DELIVERED"], dalston_queue.models.webhook.DeliveryState["GAVE_UP"], dalston_queue.models.webhook.DeliveryState["PENDING"]])),
                name="webhook_state_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="webhookdelivery",
            constraint=models.CheckConstraint(
                condition=models.Q(("status__in", [dalston_queue.jobs.lifecycle.states.JobStatus["CANCELLED"], dalston_queue.jobs.lifecycle.states.JobStatus["COMPLETED"], dalston_queue.jobs.lifecycle.states.JobStatus["FAILED"]])),
                name="webhook_status_over",
            ),
        ),
        migrations.RunSQL(AUDIT_CHAIN, DROP_AUDIT_CHAIN),
        migrations.RunSQL(AUTOVACUUM, migrations.RunSQL.noop),
        # Backwards the groups stay: people are in them.
        migrations.RunPython(make_roles, migrations.RunPython.noop),
    ]
