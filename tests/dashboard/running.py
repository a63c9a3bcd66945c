"""A running task, and the notice on the page after an action."""

from __future__ import annotations

import re
from typing import Any

from django.test import Client

from dalston_queue.broker import Consumer, Delivery
from dalston_queue.models import Task

Running = tuple[Task, Delivery, Consumer]


def notice(client: Client, answer: Any) -> str:
    """The message on the page that an action redirects to."""
    page = client.get(answer["Location"]).content.decode()
    found = re.search(r'<p class="notice[^>]*>([^<]*)</p>', page)
    return found.group(1) if found else ""
