"""What an operator did: who, what, to which thing, why, and how it was before and after.

The database itself keeps these rows as they were written (migration 0008): none can be deleted, and only two changes
pass: an act is finished once, and a user or token that is deleted is forgotten here while its name stays. Each fact
is chained in `AuditEntry`.
"""

from django.conf import settings
from django.db import models

from dalston_queue.models.api_token import ApiToken


class OperatorAction(models.Model):
    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField()
    # Who: a person by login, a program by token. `actor` keeps the name when the row it came from is gone.
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, blank=True)
    token = models.ForeignKey(ApiToken, on_delete=models.SET_NULL, null=True, blank=True)
    actor = models.CharField(max_length=200)
    action = models.CharField(max_length=40, help_text="for instance `job.cancel`, `dead_letter.replay`, `stage.pause`")
    target = models.CharField(max_length=200, help_text="the id of what it was done to")
    reason = models.TextField(blank=True, default="")
    before = models.JSONField(null=True, blank=True)
    after = models.JSONField(null=True, blank=True)
    finished_at = models.DateTimeField(
        null=True, blank=True, help_text="empty: its process died in the middle, or it goes on right now"
    )

    class Meta:
        db_table = "dalston_operator_action"
        indexes = [
            # What was done to this thing: WHERE target = %s ORDER BY id DESC
            models.Index(fields=["target", "-id"], name="action_by_target"),
            # The audit page's filters: WHERE actor = %s ORDER BY id DESC, and so on
            models.Index(fields=["actor", "-id"], name="action_by_actor"),
            models.Index(fields=["action", "-id"], name="action_by_kind"),
            models.Index(fields=["at"], name="action_by_time"),
        ]

    def __str__(self) -> str:
        return f"{self.actor}: {self.action} {self.target}"
