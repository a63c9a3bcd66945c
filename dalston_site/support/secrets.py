"""Secrets that this process knows, struck out of a text; and URLs without their logins."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from urllib.parse import unquote

from django.conf import settings

_URL = re.compile(
    r"(?P<scheme>[a-z0-9+]+)://(?:(?P<login>[^@/?#]*)@)?"
    r"(?P<hosts>(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])?(?::\d{1,5})?(?:,(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::\d{1,5})?)*)"
    r"(?P<path>/[A-Za-z0-9._/-]*)?(?P<options>\?[^@]*)?"
)
_SECRET_NAME = re.compile(r"SECRET|TOKEN|PASS|KEY|HEADER|CREDENTIAL|AUTH|DSN")


def masked(url: str) -> str:
    """Scheme, hosts and path; without login and options. What is not plainly an URL is not shown at all."""
    if not url:
        return ""
    found = _URL.fullmatch(url)
    if found is None or not (found["hosts"] or found["path"]):
        return "set, not shown"
    login = "***@" if found["login"] is not None else ""
    options = "?***" if found["options"] else ""
    return f"{found['scheme']}://{login}{found['hosts']}{found['path'] or ''}{options}"


def secrets() -> list[str]:
    """Every secret that this process knows, the longest first."""
    found = {value for name, value in os.environ.items() if _SECRET_NAME.search(name)}
    found |= {settings.SECRET_KEY, getattr(settings, "EMAIL_HOST_PASSWORD", "")}
    for url in (value for name, value in os.environ.items() if "URL" in name):
        for login in re.findall(r"//([^@\s,]*)@", url):
            password = login.partition(":")[2]
            found |= {password, unquote(password)}
    database = settings.DATABASES["default"].get("PASSWORD", "")
    return sorted((each for each in {*found, database} if len(each) >= 4), key=len, reverse=True)


def struck(text: str, known: Iterable[str]) -> str:
    for secret in known:
        text = text.replace(secret, "***").replace(json.dumps(secret)[1:-1], "***")
    return text
