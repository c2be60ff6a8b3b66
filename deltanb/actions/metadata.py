"""The actions that define a table: its metadata, and the protocol that its clients must support.

What lives here: :class:`Metadata` and :class:`Protocol`, and which features old versions of the protocol
imply.
What it does not know: what a feature means, what may be changed (``schema``, ``transaction``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from deltanb.actions.base import Action, action, camel, check_texts, extra_fields
from deltanb.errors import InvalidAction, InvalidTable
from deltanb.text.spellings import refuse_call

if TYPE_CHECKING:
    from deltanb.schema.types import StructType


TABLE_FEATURES_READER = 3
"""The reader version that lists its features; also the highest one PROTOCOL.md defines."""
TABLE_FEATURES_WRITER = 7
"""The writer version that lists its features; also the highest version number defined at all."""
LEGACY_FEATURES = {
    "appendOnly": (1, 2), "invariants": (1, 2), "checkConstraints": (1, 3), "changeDataFeed": (1, 4),
    "generatedColumns": (1, 4), "columnMapping": (2, 5), "identityColumns": (1, 6),
}
"""Features that versions below those imply -> the reader and the writer version from which they do."""
FEATURE_ALIASES = {"timestampWithoutTimezone": "timestampNtz"}
"""Names that some writers gave a feature -> its name in PROTOCOL.md, under which it is known and written."""


@lru_cache(maxsize=64)
def _parsed_schema(text: str) -> StructType:
    """Shared by the metadata of many versions: properties change, schemas seldom do."""
    from deltanb.schema.types import StructType

    return StructType.from_json(text)


@action
class Metadata(Action):
    """Name, schema, partitioning and properties of the table (PROTOCOL.md, "Change Metadata").

    >>> metadata = Metadata(id="ducks", partition_columns=("pond",))
    >>> metadata.partition_columns, metadata.format["provider"]
    (('pond',), 'parquet')
    """

    key = "metaData"

    id: str
    schema_string: str | None = None
    partition_columns: tuple[str, ...] = ()
    configuration: dict[str, str] = field(default_factory=dict)
    name: str | None = None
    description: str | None = None
    format: dict[str, Any] = field(
        default_factory=lambda: {"provider": "parquet", "options": {}}
    )
    created_time: int | None = None
    extra: dict[str, Any] = extra_fields()

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "partition_columns", tuple(self.partition_columns))
        check_texts("metaData.partitionColumns", self.partition_columns)
        if None in self.configuration.values():  # as if they were not set
            present = {name: text for name, text in self.configuration.items() if text is not None}
            object.__setattr__(self, "configuration", present)
        check_texts("metaData.configuration", self.configuration.values())
        options = self.format.get("options") or {}
        if not isinstance(options, Mapping):
            raise InvalidAction(f"metaData.format.options must be an object, found {options!r:.80}")
        named = [self.format.get("provider"), *options.values()]
        check_texts("metaData.format", [value for value in named if value is not None])

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise refuse_call("metadata")

    @cached_property
    def schema(self) -> StructType:
        """The table's logical schema.

        Raises:
            InvalidTable: the action carries no schema, or one that does not parse.

        >>> text = '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}'
        >>> Metadata(id="ducks", schema_string=text).schema.names
        ['id']
        """
        if self.schema_string is None:
            raise InvalidTable(
                f"table {self.id} has no schemaString in its metaData action; it cannot be read. "
                "Restore the metaData of an earlier version"
            )
        return _parsed_schema(self.schema_string)


@action
class Protocol(Action):
    """The versions and table features a client must support (PROTOCOL.md, "Protocol Evolution").

    >>> Protocol(3, 7, ("deletionVectors",), ("deletionVectors",)).supports("deletionVectors")
    True
    """

    key = "protocol"

    min_reader_version: int
    min_writer_version: int
    reader_features: tuple[str, ...] | None = None
    writer_features: tuple[str, ...] | None = None
    extra: dict[str, Any] = extra_fields()

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise refuse_call("protocol")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("reader_features", "writer_features"):
            value = getattr(self, name)
            if value is not None:
                value = tuple(value)
                check_texts(f"protocol.{camel(name)}", value)
                named = dict.fromkeys(FEATURE_ALIASES.get(feature, feature) for feature in value)
                object.__setattr__(self, name, tuple(named))

    def has_reader_feature(self, name: str) -> bool:
        """Listed among the reader features.

        >>> Protocol(3, 7, ("columnMapping",), ("columnMapping",)).has_reader_feature("columnMapping")
        True
        >>> Protocol(2, 5).has_reader_feature("columnMapping")  # implied and not listed
        False
        """
        return name in (self.reader_features or ())

    def has_writer_feature(self, name: str) -> bool:
        """Listed among the writer features.

        >>> protocol = Protocol(1, 7, None, ("appendOnly",))
        >>> protocol.has_writer_feature("appendOnly"), protocol.has_writer_feature("invariants")
        (True, False)
        """
        return name in (self.writer_features or ())

    def supports(self, name: str) -> bool:
        """Listed, or implied by the legacy versions (PROTOCOL.md, "Table Features").

        >>> Protocol(2, 5).supports("columnMapping"), Protocol(1, 2).supports("columnMapping")
        (True, False)
        """
        return name in self.features

    @property
    def features(self) -> tuple[str, ...]:
        """All features the table supports, listed or implied, those unknown to us too.

        >>> Protocol(1, 2).features
        ('appendOnly', 'invariants')
        """
        return _features(self.min_reader_version, self.min_writer_version,
                         self.reader_features, self.writer_features)


@lru_cache(maxsize=64)
def _features(
    reader: int, writer: int, reader_features: tuple[str, ...] | None,
    writer_features: tuple[str, ...] | None,
) -> tuple[str, ...]:
    listed: dict[str, None] = {}
    if writer >= TABLE_FEATURES_WRITER:
        listed.update(dict.fromkeys(writer_features or ()))
    if reader >= TABLE_FEATURES_READER:
        listed.update(dict.fromkeys(reader_features or ()))
    listed.update(dict.fromkeys(implied(reader, writer)))
    return tuple(listed)


def implied(reader: int, writer: int) -> tuple[str, ...]:
    """The legacy features that version numbers imply (PROTOCOL.md, "Table Features")."""
    if writer >= TABLE_FEATURES_WRITER:
        # A table with reader version 2 that lists writer features lists columnMapping there.
        return ()
    return tuple(name for name, (least_reader, least_writer) in LEGACY_FEATURES.items()
                 if least_writer <= writer and least_reader <= reader)
