"""`manage.py token create|list|revoke`: API tokens from the shell. Prints the text of a new token once."""

from __future__ import annotations

import getpass
import os
from argparse import ArgumentTypeError
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from dalston_queue.accounts import tokens
from dalston_queue.models import ApiToken, Project
from dalston_queue.models.accounts import RatePreset, Scope

DEFAULT_SCOPES = [Scope.SUBMIT.value, Scope.READ.value]


def days(text: str) -> timedelta:
    if not text.isdecimal() or not 0 < int(text) <= 36_500:
        raise ArgumentTypeError(f"{text!r} is not a number of days, such as 30")
    return timedelta(days=int(text))


class Command(BaseCommand):
    help = "Make, list and revoke API tokens."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="create|list|revoke")

        create = actions.add_parser("create", help="make a token and print its text, once")
        create.add_argument("--project", required=True, help="the project it belongs to; made if it is new")
        create.add_argument("--name", required=True, help="what it is for, so that you know it again in the list")
        create.add_argument(
            "--scope",
            action="append",
            choices=[scope.value for scope in Scope],
            help=f"may be repeated; default: {' and '.join(DEFAULT_SCOPES)}",
        )
        create.add_argument("--expires-days", type=days, metavar="DAYS", help="default: it never expires")
        create.add_argument(
            "--rate",
            choices=[tokens.NO_PRESET, *(preset.value for preset in RatePreset)],
            default=settings.DALSTON_TOKEN_RATE_PRESET,
            help="; ".join(
                [*(f"{preset}: {preset.meaning}" for preset in RatePreset), "none: no limit; default: %(default)s"]
            ),
        )

        show = actions.add_parser("list", help="list tokens, never their text")
        show.add_argument("--project", help="only of this project")

        revoke = actions.add_parser("revoke", help="revoke a token")
        revoke.add_argument("id", type=UUID, help="the id from `token list`")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002
        action = options["action"]
        if action == "create":
            self._create(options)
        elif action == "list":
            self._list(options["project"])
        else:
            self._revoke(options["id"])

    def _create(self, options: dict[str, Any]) -> None:
        now = timezone.now()
        lifetime: timedelta | None = options["expires_days"]
        scopes = dict.fromkeys(options["scope"] or DEFAULT_SCOPES)
        token, text = tokens.issue(
            _project(options["project"]),
            options["name"],
            scopes,
            expires_at=now + lifetime if lifetime else None,
            rate_preset=tokens.preset(options["rate"]),
            actor=caller(),
        )
        # The text alone on stdout, so that TOKEN=$(manage.py token create …) works.
        self.stdout.write(text)
        self.stderr.write(f"Token {token.id} of project {token.project} with {', '.join(scopes)}. Shown only now.")

    def _list(self, project: str | None) -> None:
        rows = ApiToken.objects.select_related("project").order_by("project__name", "id")
        if project:
            rows = rows.filter(project__name=project)
        now = timezone.now()
        for token in rows:
            used = _minute(token.last_used_at) if token.last_used_at else "never used"
            scopes = ",".join(token.scopes)
            self.stdout.write(f"{token.id}  {token.project}  {token.name}  {scopes}  {_state(token, now)}  {used}")

    def _revoke(self, token_id: UUID) -> None:
        token = ApiToken.objects.filter(pk=token_id).first()
        if token is None:
            raise CommandError(f"There is no token {token_id}. `manage.py token list` shows them.")
        if tokens.revoke(ApiToken.objects.filter(pk=token_id), actor=caller()):
            self.stdout.write(f"Revoked {token.name}; it works no more from now on.")
        else:
            self.stdout.write(f"{token.name} was revoked before.")


def caller() -> str:
    """The audit trail's name for the user of this shell."""
    try:
        return f"shell user {getpass.getuser()}"
    except (KeyError, OSError):  # a container whose user has no name
        return f"shell user {os.getuid()}"


def _project(name: str) -> Project:
    project = Project.objects.filter(name=name).first()
    if project:
        return project
    try:
        Project(name=name).clean_fields()
    except ValidationError as error:
        raise CommandError(f"{name!r} is no project name: {' '.join(error.messages)}") from None
    return Project.objects.get_or_create(name=name)[0]


def _state(token: ApiToken, now: datetime) -> str:
    if token.revoked_at:
        return f"revoked {_minute(token.revoked_at)}"
    if not token.expires_at:
        return "valid"
    return f"{'expired' if token.expires_at <= now else 'valid until'} {_minute(token.expires_at)}"


def _minute(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M")
