"""Protocol versions and table features: what a table asks of its readers and writers.

Lives here: the two gates (:func:`check_readable`, :func:`check_writable`) and the arithmetic of
protocols (implied features, upgrade by metadata, merge, downgrade). What this library does with
each feature is the table :data:`FEATURES`. PROTOCOL.md, "Protocol Evolution" and "Table Features".

Does not know: stores, snapshots, or how a feature does its work. Another part that needs to know
whether a feature matters asks :func:`supports` (is it in the protocol) or :func:`is_active` (is it
in the protocol and switched on by the metadata).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from deltanb.actions import Metadata, Protocol
from deltanb.actions.metadata import FEATURE_ALIASES, TABLE_FEATURES_READER, TABLE_FEATURES_WRITER, implied
from deltanb.errors import InvalidArgument, UnsupportedProtocol
from deltanb.schema.features import FEATURES, GROUPS, Feature
from deltanb.text.safe_text import get_logger

__all__ = [
    "CATALOG_MANAGED",
    "CATALOG_TABLE_ID",
    "FEATURES",
    "GROUPS",
    "Feature",
    "check_by_path",
    "check_groups",
    "check_managed",
    "check_readable",
    "check_writable",
    "downgraded",
    "dropped_features",
    "feature_named",
    "features_of",
    "implied_features",
    "is_active",
    "merged",
    "requested_features",
    "supports",
    "upgraded",
    "without_protocol_properties",
]

logger = get_logger(__name__)

FEATURE_PREFIX = "delta.feature."
CATALOG_MANAGED = "catalogManaged"
CATALOG_TABLE_ID = "io.unitycatalog.tableId"
"""The property that names a managed table's id in its catalog, which clients of Unity Catalog ask for."""
READER_VERSION_KEY = "delta.minReaderVersion"
WRITER_VERSION_KEY = "delta.minWriterVersion"
_AUTOMATIC = [feature for feature in FEATURES.values() if feature.automatic]
_BY_LOWER = {**{alias.lower(): name for alias, name in FEATURE_ALIASES.items()},
             **{name.lower(): name for name in FEATURES}}

# -- questions ---------------------------------------------------------------------------------


def implied_features(protocol: Protocol) -> tuple[str, ...]:
    """The legacy features that the version numbers imply; listed features are not among them.

    >>> implied_features(Protocol(1, 2))
    ('appendOnly', 'invariants')
    """
    return implied(protocol.min_reader_version, protocol.min_writer_version)


def features_of(protocol: Protocol) -> tuple[str, ...]:
    """All features the table supports, listed or implied, those unknown to us too."""
    return protocol.features


def supports(protocol: Protocol, feature: str) -> bool:
    """Whether the feature is in the protocol, by name or by version number.

    >>> supports(Protocol(1, 4), "changeDataFeed"), supports(Protocol(1, 2), "changeDataFeed")
    (True, False)
    """
    return protocol.supports(feature)


def feature_named(name: str) -> str | None:
    """A feature's name as the protocol spells it, from any case or an alias; None for one unknown here.

    >>> feature_named("deletionvectors"), feature_named("timestampWithoutTimezone"), feature_named("liquid")
    ('deletionVectors', 'timestampNtz', None)
    """
    return _BY_LOWER.get(name.lower())


def is_active(protocol: Protocol, metadata: Metadata, feature: str) -> bool:
    """Whether the feature is supported and the metadata switches it on ("Active Features")."""
    return supports(protocol, feature) and FEATURES[feature].is_active_in(metadata)


def dropped_features(before: Protocol, after: Protocol) -> tuple[str, ...]:
    """The features ``before`` supports and ``after`` does not."""
    remaining = set(features_of(after))
    return tuple(name for name in features_of(before) if name not in remaining)


# -- the gates ---------------------------------------------------------------------------------


def check_readable(protocol: Protocol, path: str | None = None) -> None:
    """Raise UnsupportedProtocol, naming the features, unless the table's data can be read.

    Versions 1 and 2 ask for nothing beyond column mapping; version 3 asks for what it lists, and
    one unknown name there is a refusal. No higher version is defined. A number from 4 to 7 *with*
    a feature list beside it is met in the wild as a slip of a writer that copied the writer
    version's meaning: lists have force at version 3 only, so names unknown to us carry none there
    and the table is read by what its log holds; the features we know keep their meaning. Without
    a list, or above 7 (the highest number PROTOCOL.md gives to either version), it is the mark of
    a future format and refused. Such tables are never written (:func:`check_writable`).
    """
    version = protocol.min_reader_version
    listed = protocol.reader_features or ()
    if not 1 <= version <= TABLE_FEATURES_READER and not _is_mislabelled(protocol):
        raise UnsupportedProtocol(
            f"{_table(path)} needs a reader of protocol version {version}; this library reads "
            f"versions 1 to {TABLE_FEATURES_READER}. Read it with a newer version of the library.",
            features=(),
            path=path,
        )
    if version < TABLE_FEATURES_READER:
        return
    refused = [
        name
        for name in listed
        if not (FEATURES[name].read if name in FEATURES else False)
    ]
    if version > TABLE_FEATURES_READER:
        _warn_of_version(path, version, tuple(n for n in refused if n not in FEATURES))
        refused = [name for name in refused if name in FEATURES]
    if refused:
        raise _refusal("read", refused, path)


@lru_cache(maxsize=256)
def _warn_of_version(path: str | None, version: int, unknown: tuple[str, ...]) -> None:
    """Once a table: every scan passes here."""
    logger.warning(
        "%s states reader version %d, which does not exist; its list of features is read as if it "
        "were version %d, without %s",
        _table(path),
        version,
        TABLE_FEATURES_READER,
        ", ".join(unknown) or "exception",
    )


def _is_mislabelled(protocol: Protocol) -> bool:
    version = protocol.min_reader_version
    return (
        TABLE_FEATURES_READER < version <= TABLE_FEATURES_WRITER
        and protocol.min_writer_version == TABLE_FEATURES_WRITER
        and bool(protocol.reader_features)
    )


def check_writable(
    protocol: Protocol,
    metadata: Metadata,
    path: str | None = None,
    *,
    writes_data: bool = True,
) -> None:
    """Raise UnsupportedProtocol, naming the features, unless a commit to the table is safe.

    ``writes_data`` says that the commit adds data files. Without them, features whose rules bind
    only new rows (generated, identity and default columns, Iceberg compatibility) do not stand in
    the way; neither do they when the metadata does not switch them on, as on a table of writer
    version 4 to 6 whose schema has no generated or identity column.
    """
    reader, writer = protocol.min_reader_version, protocol.min_writer_version
    if not (1 <= reader <= TABLE_FEATURES_READER and 1 <= writer <= TABLE_FEATURES_WRITER):
        raise UnsupportedProtocol(
            f"{_table(path)} needs protocol versions {reader} (reader) and {writer} (writer); this "
            f"library writes up to {TABLE_FEATURES_READER} and {TABLE_FEATURES_WRITER}. Write it "
            "with a newer version of the library.",
            features=(),
            path=path,
        )
    check_readable(protocol, path)
    refused = [
        name
        for name in features_of(protocol)
        if not _is_writable(name, metadata, writes_data)
    ]
    if refused:
        raise _refusal("write", refused, path)


def check_by_path(protocol: Protocol | None, path: str, before: Protocol | None = None) -> None:
    """Refuse a table that a catalog manages where its commits are looked for in its folder alone.

    Its catalog knows commits that the folder does not have (PROTOCOL.md, "Catalog-managed tables").
    ``before`` is the protocol that was read, where that is known to be read as it should.

    Raises:
        UnsupportedProtocol: the protocol has ``catalogManaged``, and the one before has not.
    """
    if protocol is None or not supports(protocol, CATALOG_MANAGED):
        return
    if before is None or not supports(before, CATALOG_MANAGED):
        raise UnsupportedProtocol(
            f"{_table(path)} has the table feature {CATALOG_MANAGED}: its catalog knows commits that its "
            "folder does not. Open it through the catalog, not by path: "
            "deltanb.Catalog(url).table('namespace.table')",
            features=(CATALOG_MANAGED,), path=path)


def check_groups(protocol: Protocol, table: str, is_managed: bool) -> None:
    """Refuse to write a table with the feature of transaction groups that no catalog manages.

    Raises:
        UnsupportedProtocol: the table is committed to by path, or its protocol lacks ``catalogManaged``.
    """
    if supports(protocol, GROUPS) and not (is_managed and supports(protocol, CATALOG_MANAGED)):
        raise UnsupportedProtocol(
            f"{_table(table)} cannot be written with the table feature {GROUPS}: only a table that a catalog "
            "manages may have it. Create or register the table in a catalog, and add the feature there: "
            f"deltanb.Catalog(url).table('namespace.table').add_feature({GROUPS!r})",
            features=(GROUPS,), path=table)


def check_managed(metadata: Metadata, before: Metadata | None, table: str) -> None:
    """Refuse metadata that takes from a managed table what its catalog needs of it.

    ``before`` is the metadata that was read; None where there was none, or no catalog managed the table.

    Raises:
        InvalidArgument: in-commit timestamps are off (PROTOCOL.md, "Catalog-managed tables"), or the id of
            the table is another one.
    """
    if not FEATURES["inCommitTimestamp"].is_active_in(metadata):
        raise InvalidArgument(
            f"table {table}: a catalog manages it, and orders its commits by their timestamps; "
            "delta.enableInCommitTimestamps stays true")
    known = None if before is None else before.configuration.get(CATALOG_TABLE_ID)
    table_id = metadata.configuration.get(CATALOG_TABLE_ID)
    if known is not None and table_id != known:
        raise InvalidArgument(f"table {table}: {CATALOG_TABLE_ID} is its id in the catalog and stays {known}")


def _is_writable(name: str, metadata: Metadata, writes_data: bool) -> bool:
    feature = FEATURES.get(name)
    if feature is None or feature.write == "no":
        return False
    return feature.write == "yes" or not writes_data or not feature.is_active_in(metadata)


def _refusal(verb: str, names: list[str], path: str | None) -> UnsupportedProtocol:
    reasons = []
    for name in names:
        known = FEATURES.get(name)
        reasons.append(f"{name} ({known.note})" if known and known.note else name)
    plural = "s" if len(names) > 1 else ""
    return UnsupportedProtocol(
        f"{_table(path)} has the table feature{plural} {', '.join(reasons)}: this library does not "
        f"{verb} {'them' if plural else 'it'}. Use a newer version of the library or a client that "
        f"supports {'them' if plural else 'it'}.",
        features=tuple(names),
        path=path,
    )


def _table(path: str | None) -> str:
    return f"The table at {path}" if path else "The table"


# -- changes -----------------------------------------------------------------------------------


def upgraded(protocol: Protocol, metadata: Metadata) -> Protocol:
    """The protocol that ``metadata`` needs: the same object if ``protocol`` is enough.

    Features are added for what the metadata switches on, for properties
    ``delta.feature.<name> = supported``, and for what those require; ``delta.minReaderVersion``
    and ``delta.minWriterVersion`` raise the versions. Version numbers imply features only where
    they imply exactly the ones needed; otherwise features are listed (reader version 3 and writer
    version 7), as Delta does. Nothing is ever taken away.

    >>> upgraded(Protocol(1, 2), Metadata("id", '{"type":"struct","fields":[]}',
    ...     configuration={"delta.enableChangeDataFeed": "true"})).writer_features
    ('appendOnly', 'invariants', 'changeDataFeed')
    """
    have = set(features_of(protocol))
    needed = [
        feature.name
        for feature in _AUTOMATIC
        if feature.stands_in not in have and feature.is_active_in(metadata)
    ]
    needed += requested_features(metadata.configuration)
    reader = _version(metadata.configuration, READER_VERSION_KEY, TABLE_FEATURES_READER)
    writer = _version(metadata.configuration, WRITER_VERSION_KEY, TABLE_FEATURES_WRITER)
    if reader >= TABLE_FEATURES_READER:
        writer = TABLE_FEATURES_WRITER
    needed += implied(reader, writer)
    enough = protocol.min_reader_version >= reader and protocol.min_writer_version >= writer
    if have.issuperset(_closure(needed)) and enough:
        return protocol
    return _with(protocol, _closure(needed), reader, writer)


def merged(*protocols: Protocol) -> Protocol:
    """The first protocol with every feature of the others added."""
    first, *others = protocols
    for other in others:
        names = features_of(other)
        if not set(features_of(first)).issuperset(names):
            first = _with(first, names, 1, 1)
    return first


def downgraded(protocol: Protocol, feature: str) -> Protocol:
    """The protocol without one feature; InvalidArgument if it is not there or still required.

    Where the remaining features are exactly those a legacy version implies, that version is
    returned: a reader without table features can then open the table again.
    """
    names = list(features_of(protocol))
    if feature not in names:
        raise InvalidArgument(f"The table does not have the table feature {feature}.")
    names.remove(feature)
    holders = [n for n in names if n in FEATURES and feature in FEATURES[n].requires]
    if holders:
        raise InvalidArgument(
            f"The table feature {feature} is required by {', '.join(holders)}: drop that first."
        )
    return _smallest(names)


def requested_features(configuration: Mapping[str, str]) -> list[str]:
    """The names in ``delta.feature.<name> = supported`` properties (names in any case).

    Raises UnsupportedProtocol for a name this library does not know and InvalidArgument for a
    value other than "supported" or "enabled".
    """
    names = []
    for key, value in configuration.items():
        if not key.startswith(FEATURE_PREFIX):
            continue
        name = key.removeprefix(FEATURE_PREFIX)
        known = feature_named(name)
        if value.strip().lower() not in ("supported", "enabled"):
            raise InvalidArgument(f"{key} can only be 'supported', not {value!r}.")
        if known is None:
            raise UnsupportedProtocol(
                f"{key}: there is no table feature {name} in this library. Check its spelling; "
                "known ones are in deltanb.schema.protocol.FEATURES.",
                features=(name,),
            )
        names.append(known)
    return names


def without_protocol_properties(configuration: Mapping[str, str]) -> dict[str, str]:
    """The properties that belong into metadata: those that only steer the protocol are left out."""
    steering = (READER_VERSION_KEY, WRITER_VERSION_KEY, "delta.ignoreProtocolDefaults")
    return {
        key: value
        for key, value in configuration.items()
        if key not in steering and not key.startswith(FEATURE_PREFIX)
    }


def _version(configuration: Mapping[str, str], key: str, highest: int) -> int:
    text = configuration.get(key, "1")
    if not text.strip().isdigit() or not 1 <= int(text) <= highest:
        raise InvalidArgument(f"{key} must be a number from 1 to {highest}, not {text!r}.")
    return int(text)


def _closure(names: Iterable[str]) -> list[str]:
    """The names and all they require, in the order of the table."""
    closed: set[str] = set()
    pending = list(names)
    while pending:
        name = pending.pop()
        if name not in closed:
            closed.add(name)
            pending.extend(FEATURES[name].requires if name in FEATURES else ())
    return _in_order(closed)


def _in_order(names: Iterable[str]) -> list[str]:
    """Known names in the order of the table, then the unknown ones."""
    names = list(names)
    return [n for n in FEATURES if n in names] + [n for n in names if n not in FEATURES]


def _with(protocol: Protocol, names: Iterable[str], reader: int, writer: int) -> Protocol:
    """``protocol`` and the named features, at these versions at least."""
    reader = max(reader, protocol.min_reader_version)
    writer = max(writer, protocol.min_writer_version)
    have = features_of(protocol)
    everything = [*have, *(name for name in names if name not in have)]
    if writer < TABLE_FEATURES_WRITER:
        smallest = _smallest(everything)
        if smallest.min_writer_version < TABLE_FEATURES_WRITER:
            return Protocol(
                max(reader, smallest.min_reader_version), max(writer, smallest.min_writer_version)
            )
    return _listing(everything, reader, protocol.reader_features or ())


def _smallest(names: Iterable[str]) -> Protocol:
    """The lowest versions for exactly these features: legacy if those imply nothing more."""
    names = _in_order(names)
    known = [FEATURES[name] for name in names if name in FEATURES]
    if len(known) == len(names) and all(feature.legacy for feature in known):
        reader = max((f.min_reader for f in known), default=1)
        writer = max((f.min_writer for f in known), default=1)
        legacy = Protocol(reader, writer)
        if set(implied_features(legacy)) == set(names):
            return legacy
    return _listing(names, 1, ())


def _listing(names: Iterable[str], reader: int, read_by: Iterable[str]) -> Protocol:
    """The protocol that lists these features.

    ``read_by`` names features that readers must know although they may be unknown here.
    """
    names = list(names)
    known = [FEATURES[name] for name in names if name in FEATURES]
    reader = max([reader, *(feature.min_reader for feature in known)])
    for_readers = None
    if reader >= TABLE_FEATURES_READER:
        needed = {*read_by, *(feature.name for feature in known if feature.reader)}
        for_readers = tuple(name for name in names if name in needed)
    return Protocol(reader, TABLE_FEATURES_WRITER, for_readers, tuple(names))
