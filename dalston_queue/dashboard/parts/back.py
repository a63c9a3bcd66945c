"""Where a button leads when it is done: to the page that it was pressed on, with its filters."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseRedirect
from django.utils.http import url_has_allowed_host_and_scheme


def back_to_page(request: HttpRequest, below: str, otherwise: str) -> HttpResponseRedirect:
    """`next` of the form is followed if it is a path of ours `below` this one: it may be anything, even a view's name,
    which Django's `redirect` would take for one."""
    wanted = request.POST.get("next", "")
    safe = wanted.startswith(below) and url_has_allowed_host_and_scheme(wanted, allowed_hosts=None)
    return HttpResponseRedirect(wanted if safe else otherwise)
