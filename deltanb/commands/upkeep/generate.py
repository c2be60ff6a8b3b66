"""GENERATE: manifests in the table's folder, which other engines read instead of its log.

What lives here: :func:`generate`, for all partitions at once; a hook after each commit keeps them current if
the table's properties say so.
What it does not know: the form of a manifest (``transaction/hooks.py`` writes it).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltanb.errors import InvalidArgument
from deltanb.log.skipping.partitions import hive_path
from deltanb.store.paths import Inside
from deltanb.transaction import active
from deltanb.transaction.hooks import MANIFEST_FOLDER, check_manifest, write_manifests

if TYPE_CHECKING:
    from deltanb.log.snapshot import Snapshot

SYMLINKS = "symlink_format_manifest"


@active.command
def generate(snapshot: Snapshot, mode: str = SYMLINKS) -> None:
    """Write ``_symlink_format_manifest``: lists of the table's Parquet files, one for each partition.

    Lists of partitions without files are deleted.

    Raises:
        InvalidArgument: another mode.
        UnsupportedProtocol: files have deletion vectors; such lists would bring deleted rows back.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"name": ["Donald"]})
    >>> generate(table.snapshot)
    >>> with open("ducks/_symlink_format_manifest/manifest") as manifest:
    ...     len(manifest.readlines())
    1
    """
    if mode != SYMLINKS:
        raise InvalidArgument(f"mode={mode!r} cannot be generated; there is {SYMLINKS!r}")
    snapshot.check_readable()
    write_manifests(snapshot)
    names = [str(snapshot.schema.field(column).metadata.get(
        "delta.columnMapping.physicalName", column)) for column in snapshot.partition_columns]
    manifests = set()
    for values in snapshot.select_files(["partition_values"])["partition_values"].to_pylist(
            maps_as_pydicts="lossy"):
        key = [(values or {}).get(name) for name in names]
        folder = hive_path(zip(snapshot.partition_columns, key, strict=True))
        manifests.add("/".join(part for part in (MANIFEST_FOLDER, folder, "manifest") if part))
    store = snapshot.log.store
    inside = Inside(store)
    for status in list(store.list_all(MANIFEST_FOLDER)):
        if status.name.endswith("/manifest") and status.name not in manifests:
            check_manifest(inside, status.name)
            store.delete(status.name)
