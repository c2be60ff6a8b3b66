"""The metadata of a new table: what is added to what was asked for.

What lives here: the session's default properties, and what properties need before any row is written: ids
for columns where they are mapped, names for the hidden columns of row tracking.
What it does not know: what metadata must fulfil (``metadata_check.py``), whether a table is there.
"""

from __future__ import annotations

from collections.abc import Mapping

from deltanb.actions import Metadata
from deltanb.options import options, random_id
from deltanb.schema import properties

MATERIALIZED_NAMES = {
    "delta.rowTracking.materializedRowIdColumnName": "_row-id-col-",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-commit-version-col-",
}
"""Property -> how the name of the hidden column begins."""


def completed(metadata: Metadata) -> Metadata:
    """The metadata with ``options.default_table_properties`` and with what its properties need.

    What is there already stays: properties that are set, ids and names that columns have.
    """
    configuration = with_defaults(metadata.configuration)
    metadata = metadata.replace(configuration=configuration)
    if properties.get(configuration, "delta.columnMapping.mode") != "none":
        metadata = _mapped(metadata)
    if properties.get(configuration, "delta.enableRowTracking"):
        metadata = with_materialized_names(metadata)
    return metadata


def with_defaults(configuration: Mapping[str, str]) -> dict[str, str]:
    """The properties of a new table: those given, and the session's where they say nothing.

    ``options.default_table_properties``; names are compared without case.
    """
    defaults = options.default_table_properties
    if not defaults:
        return dict(configuration)
    set_here = {name.lower() for name in configuration}
    unset = {name: text for name, text in defaults.items() if name.lower() not in set_here}
    return {**unset, **configuration}


def _mapped(metadata: Metadata) -> Metadata:
    from deltanb.schema import column_mapping  # late: an engine, which lies below

    last = properties.get(metadata.configuration, column_mapping.MAX_ID_KEY)
    schema, last = column_mapping.assign(
        metadata.schema, last, keep_names=column_mapping.has_unused_names(metadata))
    return metadata.replace(schema_string=schema.to_json(), configuration={
        **metadata.configuration, column_mapping.MAX_ID_KEY: str(last)})


def with_materialized_names(metadata: Metadata) -> Metadata:
    """The metadata with names for the hidden columns of ids and versions, new ones where it has none."""
    configuration = dict(metadata.configuration)
    for key, prefix in MATERIALIZED_NAMES.items():
        if key not in configuration:
            configuration[key] = prefix + random_id()
    return metadata.replace(configuration=configuration)
