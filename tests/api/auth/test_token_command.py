"""`manage.py token`: creates, lists without secrets, revokes at once."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from pytest_django import Settings

from dalston_queue.models import ApiToken, OperatorAction
from dalston_queue.models.accounts import digest_of
from tests.api.conftest import Api
from tests.api.documented import MISSING

pytestmark = pytest.mark.django_db


def token(*argv: str) -> str:
    out = StringIO()
    call_command("token", *argv, stdout=out, stderr=StringIO())
    return out.getvalue().strip()


def test_create_prints_only_the_text_and_keeps_only_the_digest() -> None:
    text = token("create", "--project", "demo", "--name", "laptop")
    row = ApiToken.objects.get()
    assert text.startswith("dal_")
    assert (row.digest, row.scopes, row.project.name) == (digest_of(text), ["submit", "read"], "demo")
    assert text not in token("list")
    assert Api(text).get(f"/tasks/{MISSING}").status_code == 404


def test_scopes_and_expiry_are_kept() -> None:
    token("create", "--project", "demo", "--name", "ops", "--scope", "operate", "--expires-days", "7")
    row = ApiToken.objects.get()
    assert row.scopes == ["operate"]
    assert row.expires_at
    assert timedelta(days=6) < row.expires_at - timezone.now() <= timedelta(days=7)


def test_a_setting_gives_new_tokens_a_rate_preset(settings: Settings) -> None:
    token("create", "--project", "demo", "--name", "before")
    settings.DALSTON_TOKEN_RATE_PRESET = "limited"
    token("create", "--project", "demo", "--name", "after")
    token("create", "--project", "demo", "--name", "free", "--rate", "none")
    presets = dict(ApiToken.objects.values_list("name", "rate_preset"))
    assert presets == {"before": "", "after": "limited", "free": ""}


def test_a_revoked_token_stops_working_with_the_next_request() -> None:
    text = token("create", "--project", "demo", "--name", "laptop")
    assert "Revoked laptop" in token("revoke", str(ApiToken.objects.get().pk))
    assert Api(text).get(f"/tasks/{MISSING}").json()["code"] == "token_revoked"
    assert "was revoked before" in token("revoke", str(ApiToken.objects.get().pk))
    assert "revoked" in token("list", "--project", "demo")


def test_issuing_and_revoking_are_audited_without_the_secret() -> None:
    text = token("create", "--project", "demo", "--name", "laptop")
    row = ApiToken.objects.get()
    for _ in range(2):
        token("revoke", str(row.pk))
    made, revoked = OperatorAction.objects.order_by("id")
    assert (made.action, made.target, made.after["name"]) == ("token.issue", str(row.pk), "laptop")
    assert (revoked.action, revoked.target, revoked.after) == ("token.revoke", str(row.pk), {"revoked": True})
    assert made.actor == revoked.actor
    assert made.actor.startswith("shell user ")
    assert text not in str([made.after, made.before])
    assert row.digest not in str([made.after, made.before])


def test_mistakes_are_explained() -> None:
    with pytest.raises(CommandError, match="no project name"):
        token("create", "--project", "two words", "--name", "x")
    with pytest.raises(CommandError, match="There is no token"):
        token("revoke", MISSING)
    with pytest.raises(CommandError, match="number of days"):
        token("create", "--project", "demo", "--name", "x", "--expires-days", "-1")
    with pytest.raises(CommandError, match="invalid choice"):
        token("create", "--project", "demo", "--name", "x", "--scope", "root")
