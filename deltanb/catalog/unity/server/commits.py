"""A commit as it was staged: what it makes of its table, and whether its request says the same of it.

What lives here: the content of the staged file, which is read before it is ratified. The log is what counts:
the catalog keeps what the file says, and a request whose updates say something else is refused.
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
from deltanb.catalog.unity.server.forms import bare
from deltanb.errors import InvalidArgument
from deltanb.store.base import LogStore
from deltanb.text.damage import reading

__all__ = ["Content", "configuration_of", "disagreement", "staged"]

MAX_COMMIT = 512 << 20  # bytes of a staged file: a million files of a table
ICT = "inCommitTimestamp"
_DOMAIN = re.compile(rb'^\{"domainMetadata":.*$', re.MULTILINE)


@dataclass(frozen=True)
class Content:
    """What a commit says: its first action, and the table's protocol, metadata and domains after it."""

    info: Json
    protocol: Json
    metadata: Json
    domains: Mapping[str, Json | None]
    """Domains that it sets; None for one that it removes."""
    kept: Mapping[str, Any]
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
        found = content_of(store.read(name), state, commit.version)
    time = found.info.get(ICT)
    if time != commit.ict:
        raise InvalidArgument(f"add-commit: timestamp is {commit.ict}, and the commit's {ICT} is {time}")
    if state.last_ict is not None and not state.last_ict < int(str(commit.ict)):
        raise InvalidArgument(
            f"add-commit: timestamp {commit.ict} is not after that of the version before, {state.last_ict}")
    return found


def content_of(body: bytes, state: DeltaState, version: int) -> Content:
    """What the lines of a commit make of a table that was in a state."""
    info, kept = commit_info_of(body), retained_of(body, version)
    domains: dict[str, Json | None] = {}
    for match in _DOMAIN.finditer(body):
        action = json.loads(match[0])["domainMetadata"]
        domains[action["domain"]] = None if action.get("removed") else configuration_of(
            action.get("configuration", ""))
    return Content(
        info, json.loads(kept.get("protocol", state.protocol or "{}")),
        json.loads(kept.get("metadata", state.metadata or "{}")), domains, kept)


def configuration_of(text: str) -> Json:
    """What a domain is configured to; nothing is known of one that is no JSON object.

    >>> configuration_of('{"rowIdHighWaterMark": 7}'), configuration_of("on")
    ({'rowIdHighWaterMark': 7}, {})
    """
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def disagreement(updates: Mapping[str, Json], after: Content) -> None:
    """Refuse updates that say other than the commit that they came with.

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
    found = after.metadata.get("configuration") or {}
    for name, value in update["updates"].items():
        if found.get(name) != value:
            _differs("set-properties", name)


def _removed(update: Json, after: Content) -> None:
    for name in update["removals"]:
        if name in (after.metadata.get("configuration") or {}):
            _differs("remove-properties", name)


def _columns(update: Json, after: Content) -> None:
    if bare(update["columns"]) != bare(json.loads(after.metadata["schemaString"])):
        _differs("set-columns", "columns")


def _partitioning(update: Json, after: Content) -> None:
    found = after.metadata.get("partitionColumns") or []
    if [name.lower() for name in update["partition-columns"]] != [name.lower() for name in found]:
        _differs("set-partition-columns", "partition-columns")


def _protocol(update: Json, after: Content) -> None:
    def features(protocol: Mapping[str, Any], kind: str) -> set[str]:
        return set(protocol.get(f"{kind}Features") or ())

    given = update["protocol"]
    for name in ("minReaderVersion", "minWriterVersion"):
        if given[name] != after.protocol.get(name):
            _differs("set-protocol", name)
    for kind in ("reader", "writer"):
        if features(given, kind) != features(after.protocol, kind):
            _differs("set-protocol", f"{kind}-features")


def _domains(update: Json, after: Content) -> None:
    for domain, value in update["updates"].items():
        said = after.domains.get(domain)
        if said is None or any(said.get(name) != each for name, each in value.items()):
            _differs("set-domain-metadata", domain)


def _no_domains(update: Json, after: Content) -> None:
    for domain in update["domains"]:
        if domain not in after.domains or after.domains[domain] is not None:
            _differs("remove-domain-metadata", domain)


_CHECKS = {
    "set-properties": _properties, "remove-properties": _removed, "set-columns": _columns,
    "set-partition-columns": _partitioning, "set-protocol": _protocol, "set-domain-metadata": _domains,
    "remove-domain-metadata": _no_domains}
