"""`manage.py webhook secret --project NAME`: a new secret to sign a project's webhooks with, printed once."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction
from django.utils import timezone

from dalston_queue.audit.record import audited
from dalston_queue.management.commands.token import caller
from dalston_queue.models import Project, WebhookSecret


class Command(BaseCommand):
    help = "Make the secret that a project's webhooks are signed with."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True, metavar="secret")
        secret = actions.add_parser("secret", help="make a new secret and print it, once; the one before is void")
        secret.add_argument("--project", required=True, help="the project whose jobs have callback URLs")

    def handle(self, *args: Any, **options: Any) -> None:  # noqa: ARG002
        project = Project.objects.filter(name=options["project"]).first()
        if project is None:
            raise CommandError(f"There is no project {options['project']}. `manage.py token create` makes projects.")
        with transaction.atomic(), audited("webhook.secret", project.name, actor=caller()) as row:
            secret = WebhookSecret.issue(project, timezone.now())
            row.after = {"created_at": secret.created_at.isoformat()}
        # The text alone on stdout, so that SECRET=$(manage.py webhook secret …) works.
        self.stdout.write(secret.text)
        self.stderr.write(f"Webhooks of project {project} are signed with it from now on. Shown only now.")
