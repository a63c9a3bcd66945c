"""Migrations, the admin login and the API token, in a process of its own: `python -m dalston_site.up.accounts DATA`."""

import os
import sys
from pathlib import Path

from dalston_site.embedded.secret import secret, write_private

SCOPES = ["submit", "read", "operate"]


def main(data: Path) -> None:
    import django
    from django.core.management import call_command

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dalston_site.settings")
    django.setup()
    call_command("migrate", interactive=False, verbosity=0)
    ensure_admin(secret(data / "admin-password", size=12).read_text())
    ensure_token(data / "api-token")


def ensure_admin(password: str) -> None:
    """The printed login works, whatever happened to it before."""
    from django.contrib.auth.models import User

    admin, _ = User.objects.get_or_create(username="admin", defaults={"is_staff": True, "is_superuser": True})
    if not admin.check_password(password):
        admin.set_password(password)
        admin.save(update_fields=["password"])


def ensure_token(path: Path) -> None:
    """Keep the token in the file while it is valid, so that scripts go on working over a restart."""
    from django.utils import timezone

    from dalston_queue.accounts import tokens
    from dalston_queue.models import ApiToken, Project
    from dalston_queue.models.accounts import digest_of

    text = path.read_text() if path.exists() else ""
    token = ApiToken.objects.filter(digest=digest_of(text)).first()
    if token is None or not token.is_valid(timezone.now()):
        project, _ = Project.objects.get_or_create(name="default")
        _, text = tokens.issue(project, "./dev up", SCOPES, actor="./dev up")
        write_private(path, text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
