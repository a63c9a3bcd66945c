"""The private servers that everything else stands on."""

from collections.abc import Callable

import pytest
import redis
from django.db import connection

from dalston_site.embedded.server import Server


@pytest.mark.django_db
def test_django_speaks_to_a_private_postgres() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SHOW server_version_num")
        assert int(cursor.fetchone()[0]) >= 180000


def test_an_extra_valkey_takes_configuration_lines(valkey_server: Callable[..., Server]) -> None:
    server = valkey_server({"maxmemory": "5mb"})
    with redis.Redis.from_url(server.url, decode_responses=True) as client:
        assert client.config_get("maxmemory") == {"maxmemory": str(5 * 1024 * 1024)}
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
