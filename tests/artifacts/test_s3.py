"""What only S3 has: damage on the way, a bucket that is not there, the extra that is not installed."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pytest

from dalston_queue.artifacts import StoreError, open_store
from dalston_queue.artifacts.s3 import S3Store
from tests.conftest import ROOT
from tests.s3 import BUCKET


def test_a_damaged_object_is_noticed_when_it_is_fetched(s3_env: dict[str, str], tmp_path: Path) -> None:
    store = open_store(f"s3://{BUCKET}/damaged")
    assert isinstance(store, S3Store)
    ref = store.put(io.BytesIO(b"good")).ref
    (tmp_path / "bad").write_bytes(b"evil")
    store.keep(tmp_path / "bad", ref.removeprefix("sha256:"))
    with pytest.raises(StoreError, match="is damaged"):
        store.path(ref, tmp_path / "fetched")
    assert list((tmp_path / "fetched").iterdir()) == []


def test_a_bucket_that_is_not_there_is_a_clear_error(s3_env: dict[str, str]) -> None:
    with pytest.raises(StoreError, match="the artifact store can't be written"):
        open_store("s3://no-such-bucket").put(io.BytesIO(b"x"))


def test_without_the_extra_the_error_names_it() -> None:
    code = (
        "import sys; sys.modules['s3fs'] = None; from dalston_queue.artifacts import open_store; open_store('s3://a')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "needs the extra s3: pip install 'dalston[s3]'" in done.stderr
