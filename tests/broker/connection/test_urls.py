"""URLs: which shards and connections they make."""

import pytest
from redis.connection import SSLConnection, UnixDomainSocketConnection
from redis.sentinel import SentinelConnectionPool

from dalston_queue.broker import Keys, connect
from dalston_queue.broker.connection.topology import routes
from dalston_queue.broker.errors import Invalid
from dalston_queue.broker.protocol.types import Priority


def test_the_map_of_shards() -> None:
    text = "*/high=redis://fast:6379/0, transcribe/low=redis://slow/1\n*/low=redis://slow/1"
    broker = connect("redis://home/0", shards=text)
    names = [shard.name for shard in broker.shards]
    assert names == ["redis://home/0", "redis://fast:6379/0", "redis://slow/1"]
    shard_for = broker.shard_for
    assert shard_for("transcribe", Priority.HIGH).name == "redis://fast:6379/0"
    assert shard_for("transcribe", Priority.LOW) is shard_for("echo", Priority.LOW)
    assert shard_for("echo", Priority.MEDIUM) is broker.home
    assert len(broker.shards_of("echo")) == 3


def test_one_server_is_the_default() -> None:
    broker = connect("redis://home/0")
    assert broker.shards == (broker.home,) == broker.shards_of("echo")


@pytest.mark.parametrize(
    "text", ["high=redis://x", "*/urgent=redis://x", "*/high", "*/high=nonsense", "/high=redis://x"]
)
def test_a_wrong_map_is_refused_with_its_name(text: str) -> None:
    with pytest.raises(Invalid, match="DALSTON_REDIS_URLS"):
        connect("redis://home/0", shards=text)


@pytest.mark.parametrize("url", ["http://x", "redis", ""])
def test_a_wrong_scheme_is_refused(url: str) -> None:
    with pytest.raises(Invalid, match="redis://"):
        connect(url)


def test_tls_sockets_and_retries_off() -> None:
    (route,) = routes("rediss://user:pw@host:6380/2?ssl_cert_reqs=required", Keys(), "")
    pool = route.shard.pool("")
    assert pool.connection_class is SSLConnection
    assert pool.connection_kwargs["db"] == 2 and pool.connection_kwargs["username"] == "user"
    connection = SSLConnection(**pool.connection_kwargs)
    assert connection.retry.get_retries() == 0, "only our callers repeat a script, never the client"
    assert connect("unix:///tmp/x.sock").home.pool("").connection_class is UnixDomainSocketConnection


def test_a_sentinel_url() -> None:
    url = "redis+sentinel://user:p%40ss@a:26379,b:26380/mymaster/3?sentinel_password=spw"
    shard = connect(url).home
    pool = shard.pool("")
    assert isinstance(pool, SentinelConnectionPool) and pool.service_name == "mymaster"
    assert pool.connection_kwargs["db"] == 3 and pool.connection_kwargs["password"] == "p@ss"
    sentinels = pool.sentinel_manager.sentinels
    assert [s.connection_pool.connection_kwargs["port"] for s in sentinels] == [26379, 26380]
    assert sentinels[0].connection_pool.connection_kwargs["password"] == "spw"
    assert shard.name == "redis+sentinel://a:26379,b:26380/mymaster/3"
    with pytest.raises(Invalid, match="needs hosts and a service"):
        connect("redis+sentinel://a:26379").home.pool("")
