"""Polls the cloud's metadata server for the notice that this machine will be taken away, in a thread of its own.

AWS: spot/instance-action (two minutes) and the rebalance recommendation. GCP: instance/preempted (30 s) and
maintenance-event. Azure: scheduled events of type Preempt (30 s) and Terminate.
"""

from __future__ import annotations

import json
import os
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import structlog

from .events import SpotNotice

log = structlog.get_logger("supervisor.spot")

POLL_EVERY_S = 5.0
TIMEOUT_S = 2.0
URLS = {
    "aws": "http://169.254.169.254",
    "gcp": "http://metadata.google.internal",
    "azure": "http://169.254.169.254",
}
GCP_NOTICE_S = 30.0
Fetch = Callable[..., str | None]


def fetch(url: str, *, method: str = "GET", headers: dict[str, str] | None = None) -> str | None:
    """The body; None for 404, which means that there is no notice."""
    request = urllib.request.Request(url, method=method, headers=headers or {})  # noqa: S310 (http by design)
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310
            return str(answer.read().decode("utf-8", "replace"))
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise


def ask_aws(base: str, now: float, get: Fetch = fetch) -> SpotNotice | None:
    token = get(f"{base}/latest/api/token", method="PUT", headers={"X-aws-ec2-metadata-token-ttl-seconds": "60"})
    headers = {"X-aws-ec2-metadata-token": token or ""}
    action = get(f"{base}/latest/meta-data/spot/instance-action", headers=headers)
    if action:
        planned = json.loads(action)
        return SpotNotice(
            _seconds_until(planned["time"], now),
            f"AWS will {planned['action']} this instance at {planned['time']}",
        )
    hint = get(f"{base}/latest/meta-data/events/recommendations/rebalance", headers=headers)
    return SpotNotice(None, "AWS recommends a rebalance: this instance may be taken soon") if hint else None


def ask_gcp(base: str, _now: float, get: Fetch = fetch) -> SpotNotice | None:
    headers = {"Metadata-Flavor": "Google"}
    if (get(f"{base}/computeMetadata/v1/instance/preempted", headers=headers) or "").strip() == "TRUE":
        return SpotNotice(GCP_NOTICE_S, "GCP preempts this instance")
    event = (get(f"{base}/computeMetadata/v1/instance/maintenance-event", headers=headers) or "NONE").strip()
    if event == "TERMINATE_ON_HOST_MAINTENANCE":
        return SpotNotice(60.0, "GCP terminates this instance for maintenance")
    return None


def ask_azure(base: str, now: float, get: Fetch = fetch) -> SpotNotice | None:
    body = get(f"{base}/metadata/scheduledevents?api-version=2020-07-01", headers={"Metadata": "true"})
    for event in json.loads(body or "{}").get("Events", []):
        if event.get("EventType") in ("Preempt", "Terminate"):
            not_before = event.get("NotBefore", "")
            seconds = _seconds_until(not_before, now) if not_before else 30.0
            return SpotNotice(seconds, f"Azure: {event['EventType']} of this instance")
    return None


ASK: dict[str, Callable[[str, float], SpotNotice | None]] = {"aws": ask_aws, "gcp": ask_gcp, "azure": ask_azure}


class SpotWatch:
    """Posts each notice once. DALSTON_METADATA_URL replaces the address (tests, proxies)."""

    def __init__(self, cloud: str, post: Callable[[SpotNotice], None], poll: float = POLL_EVERY_S) -> None:
        self.cloud = cloud
        self.post = post
        self.poll_every = poll
        self.base = os.environ.get("DALSTON_METADATA_URL", "").rstrip("/") or URLS[cloud]
        self._posted: set[tuple[str, bool]] = set()
        self._stop = threading.Event()
        self._answers = True

    def start(self) -> None:
        threading.Thread(target=self._run, name="spot", daemon=True).start()

    def stop(self) -> None:
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            self.poll()
            self._stop.wait(self.poll_every)

    def poll(self) -> None:
        try:
            notice = ASK[self.cloud](self.base, time.time())
        except Exception as error:  # noqa: BLE001 (with any answer, the next poll follows)
            if self._answers:
                log.warning("metadata server does not answer", cloud=self.cloud, url=self.base, why=str(error))
            self._answers = False
            return
        self._answers = True
        if notice is not None and (notice.why, notice.seconds is None) not in self._posted:
            self._posted.add((notice.why, notice.seconds is None))
            self.post(notice)


def _seconds_until(moment: Any, now: float) -> float:
    """ISO 8601 as AWS writes it, or RFC 1123 as Azure does."""
    text = str(moment)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = datetime.strptime(text, "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=UTC)
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, at.timestamp() - now)
