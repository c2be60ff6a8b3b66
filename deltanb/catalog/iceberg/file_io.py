"""PyIceberg's access to the files of a warehouse: the properties of its FileIO, from our store's options.

What lives here: PyIceberg's names for the options of a store.
What it does not know: tables, commits, and what PyIceberg does with them.

Properties contain secrets, so they are made when PyIceberg needs them, and never stored.
"""

from __future__ import annotations

from typing import Any

from deltanb.errors import InvalidArgument
from deltanb.store.base import LogStore

__all__ = ["file_io_properties"]

_NAMES = {
    "s3": {"endpoint": "s3.endpoint", "region": "s3.region", "default_region": "s3.region",
           "access_key_id": "s3.access-key-id", "secret_access_key": "s3.secret-access-key",
           "session_token": "s3.session-token", "token": "s3.session-token", "role_arn": "s3.role-arn",
           "role_session_name": "s3.role-session-name", "skip_signature": "s3.anonymous",
           "virtual_hosted_style_request": "s3.force-virtual-addressing", "proxy_url": "s3.proxy-uri"},
    "gs": {"bearer_token": "gcs.oauth2.token", "base_url": "gcs.service.host"},
    "az": {"account_name": "adls.account-name", "account_key": "adls.account-key",
           "access_key": "adls.account-key", "master_key": "adls.account-key", "sas_token": "adls.sas-token",
           "sas_key": "adls.sas-token", "tenant_id": "adls.tenant-id", "client_id": "adls.client-id",
           "client_secret": "adls.client-secret"},
}
_OF_REQUESTS = ("allow_http", "connect_timeout", "timeout", "read_timeout", "max_retries", "retry_timeout",
                "user_agent", "pool_idle_timeout", "pool_max_idle_per_host", "http1_only", "http2_only",
                "backoff_config.init_backoff", "backoff_config.max_backoff", "backoff_config.base",
                "disable_tagging", "disable_bulk_delete", "imdsv1_fallback", "unsigned_payload")
"""How requests are made; PyIceberg has its own ways, and reaches the same objects."""


def file_io_properties(store: LogStore) -> dict[str, str]:
    """PyIceberg's properties for the place of a store; none for folders, which need none.

    Other options are left to PyIceberg, which uses the environment as we do.

    Raises:
        InvalidArgument: an option of the store, or its place, has no equivalent in PyIceberg; or a catalog
            vends the credentials.
    """
    access: Any = getattr(store, "access", None)
    place: Any = getattr(store, "place", None)
    if access is None or place is None:
        return {}
    if place.kind == "az" and not store.root.startswith("abfs"):
        raise InvalidArgument(
            f"Iceberg tables cannot be in {store.root}: PyIceberg does not support az://. Give the warehouse "
            f"as abfss://{place.bucket}@ACCOUNT.dfs.core.windows.net/...", path=store.root)
    if access.vending:
        raise InvalidArgument(
            f"Iceberg tables cannot be in {store.root}: a catalog vends its credentials, which PyIceberg is "
            "not given. Open them by PyIceberg, through the catalog", path=store.root)
    options = {**dict(access.public), **access.secrets}
    if place.kind == "s3" and "endpoint" not in options and access.get("endpoint"):
        options["endpoint"] = access.get("endpoint")
    names = _NAMES[place.kind]
    unknown = sorted(name for name in options if name not in names and name not in _OF_REQUESTS)
    if unknown:
        raise InvalidArgument(
            f"Iceberg tables in {store.root} are read and written by PyIceberg, which has no property for "
            f"the storage option {unknown[0]!r}. Leave it out, or set what it says in the environment; Delta "
            "tables of the catalog are not affected", path=store.root)
    return {names[name]: value for name, value in options.items() if name in names}
