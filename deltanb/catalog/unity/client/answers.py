"""What a Unity Catalog answers, read.

What lives here: the values that its answers become, and their forms. A field that is not known is passed
over, since later servers say more; a value that is not known is refused: a kind of table, an operation.
What it does not know: requests, and what is done with the values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from deltanb.catalog.iceberg.metadata.fields import (
    Check,
    Json,
    array,
    choice,
    mapping,
    maybe,
    record,
    refuse,
    shaped,
    text,
    texts,
    uuid_text,
    whole,
)
from deltanb.catalog.store.store import Commit, Tail
from deltanb.errors import BadRequest

__all__ = ["CONFIG", "CREDENTIALS", "LOADED", "PATH_CREDENTIALS", "REGISTERED", "SCHEMA", "STAGING", "TABLE",
           "Credential", "Loaded", "Staging", "listed"]

_COUNT = whole(64, least=0)


def _known(required: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """The check of an object of which some fields are read, and the others passed over."""
    fields = record(required, optional)
    names = {*required, *(optional or ())}

    @shaped(fields)
    def check(value: Any, path: str) -> Any:
        if isinstance(value, dict):
            value = {name: each for name, each in value.items() if name in names}
        return fields(value, path)

    return check


def _read(make: Callable[..., Any], fields: Check) -> Check:
    """The check of an object that becomes a value, made of its fields with underscores."""

    @shaped(fields)
    def check(value: Any, path: str) -> Any:
        return make(**{name.replace("-", "_"): each for name, each in fields(value, path).items()})

    return check


# -- the server ----------------------------------------------------------------------------------------

CONFIG = _known({"endpoints": array(text), "protocol-version": text})
"""Which endpoints there are, in which version of the API."""


def listed(name: str, item: Check) -> Check:
    """The form of a page: its rows, and the token of the next page; None at the end."""
    page = _known({name: array(item)}, {"next_page_token": maybe(text)})

    @shaped(page)
    def check(value: Any, path: str) -> tuple[list[Any], str | None]:
        fields = page({name: [], **value} if isinstance(value, dict) else value, path)
        return fields[name], fields.get("next_page_token") or None

    return check


SCHEMA = _known({"name": text}, {"comment": text, "properties": texts})
"""A schema, with the properties that it has."""


TABLE = _known({"name": text}, {"table_id": text, "data_source_format": text, "table_type": text,
                               "storage_location": text})
"""A table in a list."""


# -- access --------------------------------------------------------------------------------------------

def _secret(fields: Check) -> Check:
    """A check that says where an answer is malformed, and not what it has there: it may be a key."""

    @shaped(fields)
    def check(value: Any, path: str) -> Any:
        try:
            return fields(value, path)
        except BadRequest as error:
            place = error.field or path
        refuse(place, "is malformed; its value is not shown, since it may be a secret")

    return check


@dataclass(frozen=True)
class Credential:
    """Keys to what lies below a place, for one operation."""

    prefix: str
    operation: str
    config: Mapping[str, str] = field(default_factory=dict, repr=False)
    expiration_time_ms: int | None = None
    """When they end, in epoch milliseconds; None where they do not."""


@shaped({"type": "object"})
def _keys(value: Any, path: str) -> dict[str, str]:
    """Keys by name; those of other services than the place's come as null."""
    keys = mapping(maybe(text))(value, path)
    return {name: each for name, each in keys.items() if each is not None}


_CREDENTIAL = _read(Credential, _known(
    {"prefix": text, "operation": choice("READ", "READ_WRITE"), "config": _keys},
    {"expiration-time-ms": whole(64)}))
_SOME_CREDENTIALS = _secret(array(_CREDENTIAL))
_CREDENTIALS = _secret(_known({"storage-credentials": _SOME_CREDENTIALS}))


@shaped(_CREDENTIALS)
def CREDENTIALS(value: Any, path: str) -> list[Credential]:
    """Keys to the files of a table."""
    credentials: list[Credential] = _CREDENTIALS(value, path)["storage-credentials"]
    return credentials


_AWS = _known({"access_key_id": text, "secret_access_key": text}, {"session_token": text})
_OLDER = {"aws_temp_credentials": _AWS, "azure_user_delegation_sas": _known({"sas_token": text}),
          "gcp_oauth_token": _known({"oauth_token": text})}
_NAMES = {"access_key_id": "s3.access-key-id", "secret_access_key": "s3.secret-access-key",
          "session_token": "s3.session-token", "sas_token": "azure.sas-token",
          "oauth_token": "gcs.oauth-token"}
_PATH = _secret(_known({}, {**_OLDER, "expiration_time": whole(64)}))


@shaped(_PATH)
def PATH_CREDENTIALS(value: Any, path: str) -> tuple[dict[str, str], int | None]:
    """Keys to a place, as the older API writes them, by the names of the other one; and when they end."""
    fields = _PATH(value, path)
    keys = {_NAMES[name]: each for kind in _OLDER for name, each in fields.get(kind, {}).items()}
    return keys, fields.get("expiration_time")


# -- tables --------------------------------------------------------------------------------------------

_COMMIT = _read(
    lambda version, timestamp, file_name, file_size, file_modification_timestamp: Commit(
        version, file_name, file_size, file_modification_timestamp, timestamp, ""),
    _known({"version": _COUNT, "timestamp": whole(64), "file-name": text, "file-size": _COUNT,
            "file-modification-timestamp": whole(64)}))

_METADATA = _known(
    {"table-type": choice("MANAGED", "EXTERNAL"), "table-uuid": uuid_text, "location": text,
     "properties": texts},
    {"etag": text})

_LOADED = _known(
    {"metadata": _METADATA},
    {"commits": array(_COMMIT), "latest-table-version": _COUNT, "uniform": shaped({"type": "object"})(
        lambda value, path: value), "allowed-maintenance-operations": array(text)})


@dataclass(frozen=True)
class Loaded:
    """A table as the catalog has it."""

    table_id: str
    location: str
    is_managed: bool
    """Whether the catalog says which commits there are; else the folder does."""
    properties: Mapping[str, str]
    etag: str | None
    tail: Tail
    """Of a managed table: the commits that are not published."""
    maintenance: tuple[str, ...] | None
    """What may be done to it beside committing rows; None where the server does not know the question."""
    has_uniform: bool
    """Whether it is converted to Iceberg, too, so that a commit would have to convert it."""


@shaped(_LOADED)
def LOADED(value: Any, path: str) -> Loaded:
    """A table, its commits from the oldest to the newest without a gap."""
    fields = _LOADED(value, path)
    metadata, commits = fields["metadata"], fields.get("commits", [])[::-1]
    latest = fields.get("latest-table-version", 0)
    for one, other in pairwise([*commits]):
        if other.version != one.version + 1:
            refuse(f"{path}.commits", f"have no version {one.version + 1}, and have {other.version}")
    if commits and commits[-1].version != latest:
        refuse(f"{path}.commits", f"end with version {commits[-1].version}, and the latest is {latest}")
    published = commits[0].version - 1 if commits else latest
    maintenance = fields.get("allowed-maintenance-operations")
    return Loaded(
        metadata["table-uuid"], metadata["location"].rstrip("/"), metadata["table-type"] == "MANAGED",
        metadata["properties"], metadata.get("etag"), Tail(latest, published, tuple(commits)),
        None if maintenance is None else tuple(maintenance), "uniform" in fields)


_REGISTERED = _known({"table_id": uuid_text, "storage_location": text}, {"properties": texts})


@shaped(_REGISTERED)
def REGISTERED(value: Any, path: str) -> Loaded:
    """An external table that was just registered, as the older API answers."""
    fields = _REGISTERED(value, path)
    return Loaded(fields["table_id"], fields["storage_location"].rstrip("/"), False,
                  fields.get("properties", {}), None, Tail(0, 0, ()), None, False)


@dataclass(frozen=True)
class Staging:
    """A table that is to be made: its id and folder, and what its first version has to have."""

    table_id: str
    location: str
    storage_credentials: list[Credential]
    required_protocol: Json
    required_properties: Mapping[str, str | None]
    """None as a value: any will do."""
    suggested_protocol: Json = field(default_factory=dict)
    suggested_properties: Mapping[str, str | None] = field(default_factory=dict)


_FEATURES = {"reader-features": array(text), "writer-features": array(text)}
_PROTOCOL = _known({}, {"min-reader-version": whole(32), "min-writer-version": whole(32), **_FEATURES})

STAGING = _read(Staging, _known(
    {"table-id": uuid_text, "location": text, "storage-credentials": _SOME_CREDENTIALS,
     "required-protocol": _PROTOCOL, "required-properties": mapping(maybe(text))},
    {"suggested-protocol": _known({}, _FEATURES), "suggested-properties": mapping(maybe(text))}))
"""A staging table."""
