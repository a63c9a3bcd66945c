"""/metrics of the web process, for a token or an allowed network, and the middleware that counts its requests."""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable
from ipaddress import ip_address, ip_network

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe
from prometheus_client import REGISTRY, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from dalston_queue.metrics import collector
from dalston_queue.metrics.processes import REQUEST_SECONDS, REQUESTS

collector.register()

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """`GET /metrics`. It names queues and nodes, so it is not for everyone."""
    if not may_read(request.headers.get("Authorization", ""), str(request.META.get("REMOTE_ADDR", ""))):
        text = "Send DALSTON_METRICS_TOKEN as a bearer token, or ask from a network of DALSTON_METRICS_NETWORKS.\n"
        challenge = {"WWW-Authenticate": 'Bearer realm="metrics"'}
        return HttpResponse(text, status=401, content_type="text/plain; charset=utf-8", headers=challenge)
    return HttpResponse(generate_latest(REGISTRY), content_type=CONTENT_TYPE_LATEST)


def may_read(authorization: str, address: str) -> bool:
    """`address`: of the client, which uvicorn takes from the header of a trusted proxy only."""
    kind, _, token = authorization.partition(" ")
    wanted = settings.DALSTON_METRICS_TOKEN
    if wanted and kind.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), wanted.encode()):
        return True
    try:
        client = ip_address(address)
    except ValueError:
        return False
    mapped = getattr(client, "ipv4_mapped", None)
    return any((mapped or client) in ip_network(network) for network in settings.DALSTON_METRICS_NETWORKS)


class MetricsMiddleware:
    """Counts requests and their time, by the pattern of the URL: a path has ids, of which there is no end."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        started = time.perf_counter()
        response = self.get_response(request)
        method = request.method if request.method in METHODS else "other"
        match = request.resolver_match
        route = f"/{match.route}" if match else "none"
        REQUESTS.labels(method, route, str(response.status_code)).inc()
        REQUEST_SECONDS.labels(method, route).observe(time.perf_counter() - started)
        return response
