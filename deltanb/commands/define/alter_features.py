"""ADD FEATURE and protocol upgrades: raise a table's requirements of readers and writers.

What lives here: :func:`add_feature`, :func:`upgrade_protocol`.
What it does not know: how a feature is dropped (``drop_feature.py``), the arithmetic of protocols
(``schema/protocol.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deltanb.actions import Metadata
from deltanb.actions.metadata import TABLE_FEATURES_READER, TABLE_FEATURES_WRITER
from deltanb.commands.begin import begin
from deltanb.commands.define.row_tracking import commit_protocol
from deltanb.commands.result import CommandResult
from deltanb.errors import InvalidArgument, UnsupportedProtocol
from deltanb.schema.features import FEATURES
from deltanb.schema.protocol import (
    FEATURE_PREFIX,
    READER_VERSION_KEY,
    WRITER_VERSION_KEY,
    feature_named,
    supports,
    upgraded,
)
from deltanb.text.formatting import did_you_mean
from deltanb.transaction import active

if TYPE_CHECKING:
    from deltanb.transaction.delta_log import DeltaLog


@active.command
def add_feature(log: DeltaLog, names: str | Sequence[str]) -> CommandResult:
    """Add table features to the protocol, with those they require; some also need properties.

    Args:
        names: e.g. ``"vacuumProtocolCheck"``, in any case.

    Returns:
        A result whose ``version`` is None if the table has them all.

    Raises:
        UnsupportedProtocol: a feature that this library does not know or cannot write.
        InvalidArgument: ``clustering``, which
            :func:`~deltanb.commands.define.alter_clustering.cluster_by` adds.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"name": ["Donald"]})
    >>> table.add_feature("domainMetadata").version
    1
    >>> table.protocol.writer_features
    ('appendOnly', 'invariants', 'domainMetadata')
    """
    requested = [feature_name(name) for name in ([names] if isinstance(names, str) else names)]
    if not requested:
        raise InvalidArgument("add_feature: no feature is named")
    txn = begin(log)
    if "clustering" in requested and not supports(txn.protocol, "clustering"):
        raise InvalidArgument(
            f"table {txn.table}: the feature clustering comes with its columns: cluster_by([...])")
    raised = upgraded(txn.protocol, txn.metadata.replace(configuration={
        **txn.metadata.configuration,
        **{f"{FEATURE_PREFIX}{name}": "supported" for name in requested}}))
    if raised is txn.protocol:
        return CommandResult("UPGRADE PROTOCOL", None, "log")
    return commit_protocol(txn, raised)


@active.command
def upgrade_protocol(log: DeltaLog, reader_version: int, writer_version: int) -> CommandResult:
    """Raise the protocol's versions; at writer version 7 the features that older ones imply are listed.

    Args:
        reader_version: 1 to 3.
        writer_version: 1 to 7; 7 where the reader version is 3.

    Returns:
        A result whose ``version`` is None if the table has these versions.

    Raises:
        InvalidArgument: no such versions, or lower ones than the table has.
        UnsupportedProtocol: versions that imply a feature that this library cannot write.
    """
    for what, version, most in (("reader", reader_version, TABLE_FEATURES_READER),
                                ("writer", writer_version, TABLE_FEATURES_WRITER)):
        if type(version) is not int or not 1 <= version <= most:
            raise InvalidArgument(f"the {what} version is 1 to {most}, found {version!r}")
    if reader_version == TABLE_FEATURES_READER and writer_version < TABLE_FEATURES_WRITER:
        raise InvalidArgument(
            f"reader version {reader_version} goes with writer version {TABLE_FEATURES_WRITER} only, "
            f"found {writer_version}")
    txn = begin(log)
    old = txn.protocol
    if reader_version < old.min_reader_version or writer_version < old.min_writer_version:
        raise InvalidArgument(
            f"table {txn.table}: the protocol ({old.min_reader_version}, {old.min_writer_version}) cannot "
            f"be lowered to ({reader_version}, {writer_version}); drop_feature(name) lowers it as far as "
            "the other features let it")
    raised = upgraded(old, Metadata(txn.metadata.id, txn.metadata.schema_string, configuration={
        READER_VERSION_KEY: str(reader_version), WRITER_VERSION_KEY: str(writer_version)}))
    if raised is old:
        return CommandResult("UPGRADE PROTOCOL", None, "log")
    return commit_protocol(txn, raised)


def feature_name(name: str) -> str:
    """A feature's name as the protocol spells it.

    Raises:
        UnsupportedProtocol: an unknown feature; suggests similar names.
    """
    short_name = str(name).removeprefix(FEATURE_PREFIX)
    known = feature_named(short_name)
    if known is not None:
        return known
    hint, _ = did_you_mean(short_name.lower(), FEATURES, "features")
    raise UnsupportedProtocol(
        f"there is no table feature {name} in this library; {hint} (deltanb.schema.protocol.FEATURES)",
        features=(str(name),))
