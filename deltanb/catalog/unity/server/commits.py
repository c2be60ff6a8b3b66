"""A staged commit: its content, and whether the updates of its request agree with it.

What lives here: the content of the staged file, which is read before it is ratified. The log decides: the
catalog stores the file's content, and refuses a request whose updates differ from it.
What it does not know: requests as such, and the database.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from deltanb.catalog.delta.commits import staged_name
from deltanb.catalog.delta.managed import commit_info_of, retained_of
from deltanb.catalog.iceberg.metadata.fields import Json
from deltanb.catalog.store.rows import DeltaState
from deltanb.catalog.store.store import Commit
from deltanb.catalog.unity.forms import bare
from deltanb.errors import InvalidArgument
from deltanb.store.base import LogStore
from deltanb.text.damage import reading

__all__ = ["Content", "configuration_of", "disagreement", "staged"]

MAX_COMMIT = 512 << 20  # bytes of a staged file: a million files of a table
ICT = "inCommitTimestamp"
_DOMAIN = re.compile(rb'^\{"domainMetadata":.*$', re.MULTILINE)


@dataclass(frozen=True)
class Content:
    """A commit's first action, and the table's protocol, metadata and domains after it."""

    info: Json
    protocol: Json
    metadata: Json
    domains: Mapping[str, Json | None]
    """Domains that it sets; None for one that it removes."""
    retained: Mapping[str, Any]
    """What the catalog is to keep of it."""


def staged(store: LogStore, commit: Commit, state: DeltaState) -> Content:
    """The content of a staged file, checked as far as a catalog has to.

    Raises:
        InvalidArgument: there is no such file, or it is not what the request says of it.
        InvalidTable: it is damaged.
    """
    name = staged_name(str(commit.file_name))
    status = store.status(name)
    if status is None:
        raise InvalidArgument(f"add-commit: there is no staged file {commit.file_name}")
    if status.size != commit.file_size or status.size > MAX_COMMIT:
        raise InvalidArgument(
            f"add-commit: file-size is {commit.file_size}, and {commit.file_name} has {status.size} bytes"
            if status.size <= MAX_COMMIT else f"add-commit: a commit has at most {MAX_COMMIT} bytes")
    with reading("the staged commit", name):
        content = content_of(store.read(name), state, commit.version)
    time = content.info.get(ICT)
    if time != commit.ict:
        raise InvalidArgument(f"add-commit: timestamp is {commit.ict}, and the commit's {ICT} is {time}")
    if state.last_ict is not None and not state.last_ict < int(str(commit.ict)):
        raise InvalidArgument(
            f"add-commit: timestamp {commit.ict} is not after that of the version before, {state.last_ict}")
    return content


def content_of(body: bytes, state: DeltaState, version: int) -> Content:
    """What the lines of a commit make of a table that was in a state."""
    info, retained = commit_info_of(body), retained_of(body, version)
    domains: dict[str, Json | None] = {}
    for match in _DOMAIN.finditer(body):
        action = json.loads(match[0])["domainMetadata"]
        domains[action["domain"]] = None if action.get("removed") else configuration_of(
            action.get("configuration", ""))
    return Content(
        info, json.loads(retained.get("protocol", state.protocol or "{}")),
        json.loads(retained.get("metadata", state.metadata or "{}")), domains, retained)


def configuration_of(text: str) -> Json:
    """A domain's configuration; an empty one where it is no JSON object.

    >>> configuration_of('{"rowIdHighWaterMark": 7}'), configuration_of("on")
    ({'rowIdHighWaterMark': 7}, {})
    """
    try:
        configuration = json.loads(text)
    except ValueError:
        return {}
    return configuration if isinstance(configuration, dict) else {}


def disagreement(updates: Mapping[str, Json], after: Content) -> None:
    """Refuse updates that differ from the commit that they came with.

    Raises:
        InvalidArgument: naming the first that does.
    """
    for action, update in updates.items():
        check = _CHECKS.get(action)
        if check is not None:
            check(update, after)


def _differs(action: str, what: str) -> NoReturn:
    raise InvalidArgument(f"{action}: {what} is not what the commit says; the table's log has what counts")


def _properties(update: Json, after: Content) -> None:
    properties = after.metadata.get("configuration") or {}
    for name, value in update["updates"].items():
        if properties.get(name) != value:
            _differs("set-properties", name)


def _removed(update: Json, after: Content) -> None:
    for name in update["removals"]:
        if name in (after.metadata.get("configuration") or {}):
            _differs("remove-properties", name)


def _columns(update: Json, after: Content) -> None:
    if bare(update["columns"]) != bare(json.loads(after.metadata["schemaString"])):
        _differs("set-columns", "columns")


def _partitioning(update: Json, after: Content) -> None:
    columns = after.metadata.get("partitionColumns") or []
    if [name.lower() for name in update["partition-columns"]] != [name.lower() for name in columns]:
        _differs("set-partition-columns", "partition-columns")


def _protocol(update: Json, after: Content) -> None:
    def features(protocol: Mapping[str, Any], kind: str) -> set[str]:
        return set(protocol.get(f"{kind}Features") or ())

    protocol_ = update["protocol"]
    for name in ("minReaderVersion", "minWriterVersion"):
        if protocol_[name] != after.protocol.get(name):
            _differs("set-protocol", name)
    for kind in ("reader", "writer"):
        if features(protocol_, kind) != features(after.protocol, kind):
            _differs("set-protocol", f"{kind}-features")


def _domains(update: Json, after: Content) -> None:
    for domain, value in update["updates"].items():
        configuration = after.domains.get(domain)
        if configuration is None or any(configuration.get(name) != each for name, each in value.items()):
            _differs("set-domain-metadata", domain)


def _no_domains(update: Json, after: Content) -> None:
    for domain in update["domains"]:
        if domain not in after.domains or after.domains[domain] is not None:
            _differs("remove-domain-metadata", domain)


_CHECKS = {
    "set-properties": _properties, "remove-properties": _removed, "set-columns": _columns,
    "set-partition-columns": _partitioning, "set-protocol": _protocol, "set-domain-metadata": _domains,
    "remove-domain-metadata": _no_domains}
