"""A web process of production behind a real nginx and a real Caddy, with the files of deploy/proxy, over TLS."""

from __future__ import annotations

import json
import re
import shutil
import ssl
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from django.contrib.auth.models import User
from pytest_django import DjangoDbBlocker
from websockets.sync.client import connect
from websockets.typing import Origin

from dalston_queue.models import ApiToken, LoginAttempt, Project
from tests.conftest import ROOT
from tests.install.conftest import run
from tests.install.proxies import Proxy
from tests.site.settings.production import PRODUCTION
from tests.tls import self_signed
from tests.web import Web, environment

pytestmark = pytest.mark.django_db(transaction=True)
METRICS_TOKEN = "a-token-for-prometheus"
# The comment lines of an event stream, ten times as often, and the timeout of the proxy as much shorter.
QUICKER = "import dalston_site.asgi; from dalston_queue.api.subscriptions import stream; stream.HEARTBEAT_S = 1.0"


@pytest.fixture(scope="module")
def production(
    django_db_setup: None, django_db_blocker: DjangoDbBlocker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    with django_db_blocker.unblock():
        env = environment()
    static = tmp_path_factory.mktemp("static")
    own = {
        "DALSTON_DEV": "0",
        "DALSTON_SECRET_KEY": PRODUCTION["DALSTON_SECRET_KEY"],
        "DALSTON_ALLOWED_HOSTS": "localhost",
        "DALSTON_STATIC_ROOT": str(static),
        "DALSTON_METRICS_TOKEN": METRICS_TOKEN,
    }
    env |= own
    run(sys.executable, "manage.py", "collectstatic", "--noinput", cwd=ROOT, env=env)
    yield env
    shutil.rmtree(env["DALSTON_ARTIFACTS_URL"].removeprefix("file://"))


@pytest.fixture(scope="module")
def behind(production: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Web]:
    log = tmp_path_factory.mktemp("behind") / "log"
    web = Web(production, log, options=["--forwarded-allow-ips", "127.0.0.1"], before=QUICKER)
    yield web
    web.process.stop()
    web.process.reap()


@pytest.fixture(scope="module", params=["nginx", "caddy"])
def proxy(request: pytest.FixtureRequest, behind: Web, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    folder = tmp_path_factory.mktemp(request.param)
    key, certificate = self_signed(folder)
    proxy = Proxy(request.param, folder / "run", behind.port, certificate, key)
    proxy.text = proxy.text.replace("proxy_read_timeout 660s", "proxy_read_timeout 3s")
    proxy.start()
    yield proxy
    proxy.stop()


def client_of(proxy: Proxy, **options: object) -> httpx.Client:
    transport = httpx.HTTPTransport(
        verify=ssl.create_default_context(cafile=str(proxy.certificate)),
        local_address=str(options.pop("address", "127.0.0.1")),
    )
    return httpx.Client(base_url=proxy.url, transport=transport, timeout=60, **options)  # type: ignore[arg-type]


def bearer(*scopes: str) -> dict[str, str]:
    project = Project.objects.get_or_create(name="demo")[0]
    return {"Authorization": f"Bearer {ApiToken.issue(project, 'proxy', list(scopes))[1]}"}


def log_in(client: httpx.Client, proxy: Proxy, password: str) -> httpx.Response:
    """As a browser sends the form, with the Origin of its address bar."""
    form = client.get("/login/")
    [token] = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', form.text)
    values = {"username": "ada", "password": password, "csrfmiddlewaretoken": token}
    headers = {"Origin": proxy.url, "Referer": f"{proxy.url}/login/"}
    return client.post("/login/", data=values, headers=headers)


def test_a_browser_logs_in_and_its_socket_opens(proxy: Proxy) -> None:
    User.objects.create_superuser("ada", password="correct horse battery")
    with client_of(proxy) as client:
        answer = log_in(client, proxy, "correct horse battery")
        assert (answer.status_code, answer.headers["location"]) == (302, "/"), answer.text
        assert "strict-transport-security" in answer.headers
        assert client.cookies.jar and all(cookie.secure for cookie in client.cookies.jar)
        assert client.get("/").status_code == 200
        context = ssl.create_default_context(cafile=str(proxy.certificate))
        cookies = {"Cookie": f"sessionid={client.cookies['sessionid']}"}
        url = f"{proxy.url.replace('https', 'wss')}/ws/overview/"
        with connect(url, ssl=context, origin=Origin(proxy.url), additional_headers=cookies) as socket:
            assert "as-of" in str(socket.recv(timeout=30)) + str(socket.recv(timeout=30))


def test_the_clients_address_is_the_one_that_the_proxy_sees(proxy: Proxy, behind: Web) -> None:
    forged = {"X-Forwarded-For": "198.51.100.7", "X-Forwarded-Proto": "http", "Forwarded": "for=198.51.100.7"}
    with client_of(proxy, address="127.0.0.9", headers=forged) as client:
        assert log_in(client, proxy, "wrong").status_code == 200
    assert LoginAttempt.objects.latest("id").address == "127.0.0.9"


def test_a_quiet_event_stream_stays_open_longer_than_the_proxy_waits(proxy: Proxy) -> None:
    follows_a_quiet_job(proxy, 5.0)


def follows_a_quiet_job(proxy: Proxy, seconds: float) -> None:
    headers = bearer("submit", "read")
    with client_of(proxy, headers=headers) as client:
        job = client.post("/api/v1/jobs", json={"name": "quiet", "stages": [{"stage": "unused"}]}).json()["job_id"]
        start, comments, cancelled = time.monotonic(), 0, False
        with client.stream("GET", f"/api/v1/jobs/{job}/events") as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            for line in stream.iter_lines():
                if line.startswith("event: progress") and not cancelled:
                    assert time.monotonic() - start < seconds / 2, "the proxy keeps the events back"
                comments += line.startswith(": still here")
                if time.monotonic() - start > seconds and comments and not cancelled:
                    assert client.delete(f"/api/v1/jobs/{job}").status_code == 200
                    cancelled = True
                if line.startswith("event: end"):
                    break
        assert cancelled


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_an_event_stream_is_idle_for_90_seconds(
    production: dict[str, str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """With the times of deploy/proxy and of the server, both proxies."""
    options = ["--forwarded-allow-ips", "127.0.0.1"]
    web = Web(production, tmp_path / "log", options=options)
    request.addfinalizer(web.process.reap)
    for kind in ("nginx", "caddy"):
        (tmp_path / kind).mkdir()
        key, certificate = self_signed(tmp_path / kind)
        proxy = Proxy(kind, tmp_path / kind / "run", web.port, certificate, key)
        proxy.start()
        request.addfinalizer(proxy.stop)
        follows_a_quiet_job(proxy, 90.0)


def batch_of(size: int) -> str:
    """Padded with spaces, which JSON allows."""
    jobs = [{"name": "large", "stages": [{"stage": "unused", "parameters": {"text": "x" * 250_000}}]}] * 66
    return json.dumps({"jobs": jobs}).ljust(size)


def test_a_batch_of_16_mib_passes_and_a_larger_one_is_refused_by_us(proxy: Proxy) -> None:
    with client_of(proxy, headers={**bearer("submit"), "Content-Type": "application/json"}) as client:
        passed, refused = (client.post("/api/v1/jobs:batch", content=batch_of(2**24 + more)) for more in (0, 1))
    assert passed.status_code == 200, passed.text[:500]
    assert (refused.status_code, refused.json()["code"]) == (413, "payload_too_large")


def test_a_recording_larger_than_any_form_passes(proxy: Proxy, production: dict[str, str]) -> None:
    recording = b"RIFF" + bytes(40 * 2**20)
    with client_of(proxy, headers=bearer("submit", "read")) as client:
        answer = client.post("/v1/audio/transcriptions", files={"file": ("long.wav", recording)})
        assert answer.status_code == 201, answer.text[:500]
        heard = client.get(f"/v1/audio/transcriptions/{answer.json()['id']}/audio", headers={"Range": "bytes=0-3"})
        assert (heard.status_code, heard.content) == (206, b"RIFF")
    store = Path(production["DALSTON_ARTIFACTS_URL"].removeprefix("file://"))
    assert max(file.stat().st_size for file in store.rglob("*") if file.is_file()) == len(recording)


def test_metrics_are_closed_from_outside_and_open_from_inside(proxy: Proxy, behind: Web) -> None:
    headers = {"Authorization": f"Bearer {METRICS_TOKEN}"}
    with client_of(proxy, headers=headers) as client:
        for path in ("/metrics", "/./metrics", "/%6Detrics", "/x/../metrics"):
            assert client.get(path).status_code == 404, path
        assert client.get("/healthz").status_code == client.get("/readyz").status_code == 200
    inside = httpx.get(f"{behind.url}/metrics", headers=headers)
    assert inside.status_code == 200 and "dalston_" in inside.text


def test_a_load_balancer_asks_by_address_and_a_browser_cannot(behind: Web) -> None:
    assert httpx.get(f"{behind.url}/healthz").status_code == 200
    assert httpx.get(f"{behind.url}/metrics").status_code == 401
    assert httpx.get(f"{behind.url}/login/").status_code in (301, 400)
    assert httpx.get(f"{behind.url}/login/", headers={"X-Forwarded-Proto": "https"}).status_code == 400


def test_plain_http_is_sent_on_to_https(proxy: Proxy) -> None:
    answer = httpx.get(f"http://localhost:{proxy.plain}/jobs/?status=failed")
    assert answer.status_code in (301, 308)
    assert re.fullmatch(r"https://localhost(:\d+)?/jobs/\?status=failed", answer.headers["location"])


def test_a_form_that_comes_from_another_address_says_so(behind: Web, tmp_path: Path) -> None:
    """nginx's usual `$host` has no port: the cause is named, and what the proxy has to pass."""
    key, certificate = self_signed(tmp_path)
    proxy = Proxy("nginx", tmp_path / "run", behind.port, certificate, key)
    proxy.text = proxy.text.replace("Host $http_host;", "Host $host;")
    proxy.start()
    try:
        with client_of(proxy) as client:
            answer = log_in(client, proxy, "wrong")
    finally:
        proxy.stop()
    assert answer.status_code == 403
    assert "another address" in answer.text and proxy.url in answer.text and "too old" not in answer.text
