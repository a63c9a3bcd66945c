"""Static files that were not collected: pages work without, and a check says what to do."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from pytest_django import DjangoDbBlocker

from tests.conftest import ROOT
from tests.site.settings.production import PRODUCTION
from tests.web import Web, environment


@pytest.fixture
def production(transactional_db: None, django_db_blocker: DjangoDbBlocker, tmp_path: Path) -> Iterator[dict[str, str]]:
    env = environment()
    own = {"DALSTON_DEV": "0", "DALSTON_HTTPS": "0", "DALSTON_ALLOWED_HOSTS": "127.0.0.1"}
    secret = {"DALSTON_SECRET_KEY": PRODUCTION["DALSTON_SECRET_KEY"]}
    yield {**env, **own, **secret, "DALSTON_STATIC_ROOT": str(tmp_path / "static")}
    shutil.rmtree(env["DALSTON_ARTIFACTS_URL"].removeprefix("file://"))


def served(env: dict[str, str], log: Path) -> tuple[list[str], str]:
    """The static files of the login page, each fetched, and what the process has written."""
    web = Web(env, log)
    try:
        page = httpx.get(f"{web.url}/login/")
        assert page.status_code == 200, page.text
        paths = re.findall(r'(?:src|href)="/static/([^"]+)"', page.text)
        for path in paths:
            assert httpx.get(f"{web.url}/static/{path}").status_code == 200, path
        return paths, web.process.output
    finally:
        web.process.stop()
        web.process.reap()


def test_pages_work_without_collected_files_and_a_check_says_what_to_do(
    production: dict[str, str], tmp_path: Path
) -> None:
    paths, written = served(production, tmp_path / "log")
    assert "dalston/dalston.css" in paths
    assert "dalston.W280" in written and "Run manage.py collectstatic" in written
    root = Path(production["DALSTON_STATIC_ROOT"])
    collect = [sys.executable, "manage.py", "collectstatic", "--noinput"]
    subprocess.run(collect, cwd=ROOT, env=production, check=True, capture_output=True)
    paths, written = served(production, tmp_path / "log")
    assert [path for path in paths if re.fullmatch(r"dalston/dalston\.[0-9a-f]{12}\.css", path)]
    assert "W280" not in written
    # As after an upgrade without collectstatic: the manifest is that of an older version.
    manifest = root / "staticfiles.json"
    manifest.write_text(re.sub(r'"dalston/dalston.css": "[^"]+",? ?', "", manifest.read_text()))
    written = served(production, tmp_path / "log")[1]
    assert "(dalston/dalston.css is the first)" in written
    (root / "dalston" / "dalston.css").unlink()
    assert "dalston/dalston.css" in served(production, tmp_path / "log")[0]
    manifest.write_text(manifest.read_text()[:100])
    assert "W280" in served(production, tmp_path / "log")[1]
