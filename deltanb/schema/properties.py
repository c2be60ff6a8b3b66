"""Table properties: names, types, defaults.

What lives here: the ``delta.*`` properties that change what this library does, as one table, and the
parsing of their text. Sources: PROTOCOL.md and Delta Spark's documented table properties.
What it does not know: who acts on a property.

>>> get({"delta.checkpointInterval": "20"}, "delta.checkpointInterval")
20
>>> get({}, "delta.logRetentionDuration") == 30 * DAY_MS
True
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from deltanb.errors import InvalidArgument, UnknownPropertyWarning, warn
from deltanb.options import ROW_LEVEL_NAMES
from deltanb.text.formatting import did_you_mean
from deltanb.text.safe_text import shown

DAY_MS = 86_400_000
_UNITS = {
    "microsecond": 0.001, "millisecond": 1, "second": 1_000, "minute": 60_000, "hour": 3_600_000,
    "day": DAY_MS, "week": 7 * DAY_MS,
}


def _boolean(text: str) -> bool:
    match text.strip().lower():
        case "true":
            return True
        case "false":
            return False
    raise ValueError("expected true or false")


def _integer(least: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        value = int(text)
        if value < least:
            raise ValueError(f"expected an integer of at least {least}")
        return value

    return parse


def _choice(*allowed: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        for name in allowed:
            if text.strip().lower() == name.lower():
                return name
        raise ValueError(f"expected one of {', '.join(allowed)}")

    return parse


def size_in_bytes(text: str) -> int:
    """Bytes, with a unit of powers of 1024 where one is given, as Spark and Hadoop write them.

    >>> size_in_bytes("134217728") == size_in_bytes("128m") == size_in_bytes("128 MB")
    True

    Raises:
        ValueError: no size.
    """
    match = re.fullmatch(r"(\d+)\s*([kmgtp]?)b?", text.strip().lower())
    if not match:
        raise ValueError("expected bytes such as 134217728 or 128mb")
    return int(match[1]) * 1024 ** "_kmgtp".find(match[2] or "_")


def parse_interval(text: str) -> int:
    """Milliseconds of ``interval 30 days``, ``7 days 12 hours``, …; months and years are refused.

    Raises:
        ValueError: not an interval of fixed length.

    >>> parse_interval("interval 1 week") == 7 * DAY_MS
    True
    """
    words = text.strip().lower().removeprefix("interval").split()
    total = 0.0
    if not words or len(words) % 2:
        raise ValueError("expected an interval such as 'interval 30 days'")
    for number, unit in zip(words[::2], words[1::2], strict=True):
        if unit.removesuffix("s") not in _UNITS:
            raise ValueError(f"expected days, hours, … (no months, no years), found {unit!r}")
        total += float(number.strip("'")) * _UNITS[unit.removesuffix("s")]
    if not 0 <= total < 2**63:
        raise ValueError("expected an interval of 0 to 2**63 milliseconds")
    return int(total)


def _columns(text: str) -> tuple[str, ...]:
    """Names between commas; a name in backticks may hold commas and dots."""
    return tuple(m.strip() for m in re.findall(r"(?:`(?:[^`]|``)*`|[^,`])+", text) if m.strip())


_CODECS = {
    "none": "none", "uncompressed": "none", "snappy": "snappy", "gzip": "gzip", "zstd": "zstd",
    # "lz4" once meant Hadoop's framing, which Parquet has deprecated in favour of the block format.
    "lz4": "lz4_raw", "lz4_raw": "lz4_raw",
}


def codec(text: str) -> str:
    """A codec by the one name of several that both writers know.

    >>> codec("UNCOMPRESSED")
    'none'

    Raises:
        ValueError: this library does not write it.
    """
    name = _CODECS.get(text.strip().lower())
    if name is None:
        raise ValueError(f"this library writes {', '.join(_CODECS)}")
    return name


def _format_version(text: str) -> str:
    """``1.0.0``, or ``2.MINOR.PATCH``."""
    if not re.fullmatch(r"1\.0\.0|2\.[0-9]+\.[0-9]+", text.strip()):
        raise ValueError("expected 1.0.0, or 2.MINOR.PATCH such as 2.12.0")
    return text.strip()


class Property(NamedTuple):
    """A table property that this library knows."""

    parse: Callable[[str], Any]
    """The value of its text; a ValueError says what is expected."""
    default: Any
    """Its value where it is not set."""
    meaning: str
    """What it does, in a sentence."""


PROPERTIES: Mapping[str, Property] = {
    "delta.appendOnly": Property(_boolean, False,
        "Rows can be added, never changed or deleted."),
    "delta.checkpointInterval": Property(_integer(1), None,  # by the table's size: log/checkpoint/interval.py
        "How many commits after a checkpoint the next one is written. Without it the size of the table "
        "decides."),
    "delta.checkpointPolicy": Property(_choice("classic", "v2"), "classic",
        "The kind of checkpoint: ``classic`` is one file, ``v2`` may have sidecars."),
    "delta.checkpoint.writeStatsAsJson": Property(_boolean, True,
        "Checkpoints have the statistics of files as JSON."),
    "delta.checkpoint.writeStatsAsStruct": Property(_boolean, False,
        "Checkpoints have the statistics of files as typed columns."),
    "delta.checkpointRetentionDuration": Property(parse_interval, 2 * DAY_MS,
        "How long checkpoints that newer ones replace are kept."),
    "delta.columnMapping.mode": Property(_choice("none", "name", "id"), "none",
        "Columns have names or ids in data files that a rename does not change."),
    "delta.columnMapping.hasDroppedOrRenamed": Property(_boolean, None,
        "Whether a column was ever dropped or renamed. Writers set it."),
    "delta.columnMapping.maxColumnId": Property(_integer(0), 0,
        "The largest id that a column has had. Writers set it."),
    "delta.compatibility.symlinkFormatManifest.enabled": Property(_boolean, False,
        "Each commit is followed by manifests, from which engines without Delta read the table."),
    "delta.dataSkippingNumIndexedCols": Property(_integer(-1), 32,
        "How many leading columns have statistics; -1 is all of them."),
    "delta.dataSkippingStatsColumns": Property(_columns, None,
        "The columns that have statistics, by name; it takes precedence over their number."),
    "delta.deletedFileRetentionDuration": Property(parse_interval, 7 * DAY_MS,
        "How long removed files stay for readers of past versions; VACUUM deletes older ones."),
    "delta.enableChangeDataFeed": Property(_boolean, False,
        "Commits record the rows that they insert, change and delete."),
    "delta.dropFeatureTruncateHistory.retentionDuration": Property(parse_interval, DAY_MS,
        "How long versions with a dropped feature are kept when its history is truncated."),
    "delta.enableDeletionVectors": Property(_boolean, False,
        "DELETE, UPDATE and MERGE mark rows as deleted instead of rewriting their files."),
    "delta.enableExpiredLogCleanup": Property(_boolean, True,
        "Log files older than the retention are deleted after a checkpoint."),
    "delta.enableIcebergCompatV1": Property(_boolean, False,
        "The table is kept readable as an Iceberg table, by the first set of rules."),
    "delta.enableIcebergCompatV2": Property(_boolean, False,
        "The table is kept readable as an Iceberg table, by the second set of rules."),
    "delta.enableInCommitTimestamps": Property(_boolean, False,
        "The time of a version is in its commit, not in the file system."),
    "delta.enableMaterializePartitionColumnsFeature": Property(_boolean, False,
        "Data files contain the partition columns, and the protocol says so."),
    "delta.enableRowTracking": Property(_boolean, False,
        "Each row has an id that it keeps when its file is rewritten."),
    "delta.enableTypeWidening": Property(_boolean, False,
        "The type of a column can become a wider one without rewriting files."),
    "delta.enableVariantShredding": Property(_boolean, False,
        "Frequent fields of variants are columns of their own in data files."),
    "delta.inCommitTimestampEnablementTimestamp": Property(_integer(0), None,
        "Since which time, in epoch milliseconds, commits have their time. Writers set it."),
    "delta.inCommitTimestampEnablementVersion": Property(_integer(0), None,
        "Since which version commits have their time. Writers set it."),
    "delta.isolationLevel": Property(
        _choice("Serializable", "WriteSerializable", "SnapshotIsolation"), "Serializable",
        "Which conflicts end a commit."),
    "delta.logRetentionDuration": Property(parse_interval, 30 * DAY_MS,
        "How long the history of the table is kept."),
    "delta.minReaderVersion": Property(_integer(1), None,
        "The reader version of a new table, at least."),
    "delta.minWriterVersion": Property(_integer(1), None,
        "The writer version of a new table, at least."),
    "delta.parquet.compression.codec": Property(codec, None,
        "How data files are compressed; an argument of a write takes precedence."),
    "delta.parquet.format.version": Property(_format_version, "1.0.0",
        "The version of Parquet in which data files are written."),
    "delta.rowTrackingSuspended": Property(_boolean, False,
        "New files get no row ids for the time being."),
    "delta.randomizeFilePrefixes": Property(_boolean, False,
        "Data files are in folders with random names, which spreads requests in a bucket."),
    "delta.requireCheckpointProtectionBeforeVersion": Property(_integer(0), 0,
        "Before this version, the log may be cleaned up only by those who know how. Writers set it."),
    "delta.rowTracking.materializedRowCommitVersionColumnName": Property(str, None,
        "The column in data files for the version in which a row last changed. Writers set it."),
    "delta.rowTracking.materializedRowIdColumnName": Property(str, None,
        "The column in data files for the ids of rows. Writers set it."),
    "delta.setTransactionRetentionDuration": Property(parse_interval, None,
        "How long the log remembers the last transaction of an application. Without it, always."),
    "delta.targetFileSize": Property(size_in_bytes, None,
        "The size that OPTIMIZE and writes aim at; an argument of a command takes precedence."),
    "delta.writePartitionColumnsToParquet": Property(_boolean, False,
        "Data files contain the partition columns."),
    "deltanb.rowLevelConcurrency": Property(_choice(*ROW_LEVEL_NAMES), "off",
        "How closely commits of this library look at those that landed before them, where partitions do not "
        "tell them apart."),
}
OTHERS = (
    "delta.autooptimize", "delta.casticebergtimetype", "delta.constraints.", "delta.coordinatedcommits.",
    "delta.enablechangedatacapture", "delta.enablefullretentionrollback", "delta.enableicebergcompat",
    "delta.enableicebergwritercompat", "delta.feature.", "delta.ignoreprotocoldefaults",
    "delta.randomprefixlength", "delta.redirect", "delta.sampleretentionduration",
    "delta.tunefilesizesforrewrites", "delta.universalformat",
)
"""How names begin that other writers act on and this library does not (Delta's ``DeltaConfig.scala``), and
families whose members a table names itself; in lower case."""
_SPELLED = {name.lower(): name for name in PROPERTIES}


def as_text(name: Any, value: Any) -> str:
    """A property as the log holds it, from what Python code gives: text, a number or a bool.

    >>> as_text("delta.appendOnly", True), as_text("delta.checkpointInterval", 5)
    ('true', '5')

    Raises:
        InvalidArgument: anything else, or a name that is not text.
    """
    if not isinstance(name, str) or not name:
        raise InvalidArgument(f"table property {name!r} = {value!r}: the name must be a string")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        try:
            return str(value)
        except ValueError:  # Python writes no integer of thousands of digits
            raise InvalidArgument(f"table property {name!r} = {shown(value)} is beyond every number a "
                                  "property may be", property=name) from None
    if not isinstance(value, str):
        raise InvalidArgument(f"table property {name!r} = {value!r} must be text, a number or a bool")
    return value


def spelled(name: str) -> str:
    """A property's name as this table of properties spells it; unknown ones as they are.

    >>> spelled("DELTA.appendonly"), spelled("mine")
    ('delta.appendOnly', 'mine')
    """
    return _SPELLED.get(name.lower(), name)


def get(configuration: Mapping[str, str], name: str) -> Any:
    """The typed value of a property, or its default; names are compared without case.

    Raises:
        InvalidArgument: the text is not a value of that property.
    """
    parse, default, _ = PROPERTIES[name]
    text = configuration.get(name)
    if text is None and configuration:
        lower = name.lower()
        for key, value in configuration.items():
            if len(key) == len(name) and key.lower() == lower:
                text = value
                break
    if text is None:
        return default
    try:
        return parse(text)
    except ValueError as error:
        raise InvalidArgument(
            f"table property {name} = {text!r}: {error}", property=name
        ) from None


def validate(configuration: Mapping[str, str]) -> None:
    """Check every known property of a configuration.

    Raises:
        InvalidArgument: the first one whose text is not a value of it.
    """
    for name, text in configuration.items():
        if not isinstance(text, str):
            raise InvalidArgument(
                f"table property {name} must be text, found {text!r}", property=name)
        lower = name.lower()
        if lower in _SPELLED:
            get(configuration, _SPELLED[lower])


def values_of(name: str) -> str:
    """What a property may be, in the words in which another value is refused.

    >>> values_of("delta.appendOnly"), values_of("delta.checkpointInterval")
    ('true or false', 'an integer of at least 1')
    """
    parse = PROPERTIES[name].parse
    if parse is codec:
        return f"one of {', '.join(_CODECS)}"
    try:
        parse("-2")  # no property may be this, but for names of columns
    except ValueError as error:
        return str(error).removeprefix("expected ")
    return "names of columns, separated by commas" if parse is _columns else "text"


def is_known(name: str) -> bool:
    """Whether a property is one of Delta's, or of another kind than those that begin with ``delta.``.

    >>> is_known("delta.appendonly"), is_known("delta.apendOnly"), is_known("mine")
    (True, False, True)
    """
    lower = name.lower()
    return not lower.startswith("delta.") or lower in _SPELLED or lower.startswith(OTHERS)


def warn_of_unknown(names: Iterable[str]) -> None:
    """Warn of ``delta.`` properties that nobody knows: they are kept, and change nothing.

    Warns:
        UnknownPropertyWarning: naming the property, and the known one that it is like.
    """
    for name in names:
        if not is_known(name):
            hint, close = did_you_mean(name, PROPERTIES, least=0.7)
            warn(f"table property {name} is unknown and changes nothing"
                 f"{f'; {hint}' if close else ''}", UnknownPropertyWarning)
