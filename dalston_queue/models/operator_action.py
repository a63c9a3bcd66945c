"""What an operator did: who, what, to which thing, why, and how it was before and after."""

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

    class Meta:
        db_table = "dalston_operator_action"
        # What was done to this thing: WHERE target = %s ORDER BY id DESC
        indexes = [models.Index(fields=["target", "-id"], name="action_by_target")]

    def __str__(self) -> str:
        return f"{self.actor}: {self.action} {self.target}"
