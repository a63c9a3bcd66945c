"""Redis keys of huey: one set per installation, all on docs/redis-keys.md."""

from dalston_site.huey import make_huey
from tests.conftest import ROOT


def keys(prefix: str) -> list[str]:
    storage = make_huey("redis://127.0.0.1:1/0", prefix).storage
    return [storage.queue_key, storage.schedule_key, storage.result_key, storage.counter_key]


def test_two_prefixes_share_no_key() -> None:
    assert not set(keys("gpu-1")) & set(keys("gpu1"))


def test_each_key_is_on_the_page() -> None:
    page = (ROOT / "docs" / "redis-keys.md").read_text()
    assert [key for key in keys("dalston") if f"| `{key}` |" not in page] == []
