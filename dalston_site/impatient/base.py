"""What Django loads for `ENGINE`. Only for a database with a pool."""

from typing import Any

from django.db.backends.postgresql import base

from dalston_site.impatient.connection import ImpatientConnection
from dalston_site.impatient.patience import patience


class DatabaseWrapper(base.DatabaseWrapper):
    def __init__(self, settings_dict: dict[str, Any], alias: str = "default") -> None:
        super().__init__(settings_dict, alias)
        settings_dict["OPTIONS"]["pool"]["connection_class"] = ImpatientConnection

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        patience.enter()
        return super().get_new_connection(conn_params)
