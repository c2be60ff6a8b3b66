"""Options of the data source ``deltanb``: what a reader or writer of Spark's is given, checked by name.

What lives here: :class:`ReadOptions` and :class:`WriteOptions`, made of the texts that Spark hands over, and
:class:`SparkOptions`, by which any of them is taken. Spark knows no case of names, and no value but texts.
What it does not know: which options there are (``option_table``); tables, sessions.

What is no option of ours reaches a bucket (``storage_options``), where the path is in one; else it is
refused.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from deltanb.errors import InvalidArgument
from deltanb.log.file_options import FileOptions
from deltanb.schema.properties import size_in_bytes
from deltanb.sources.spark.option_table import (
    IMPOSSIBLE,
    OPTIONS,
    PROPERTIES,
    READ,
    STREAM_WRITE,
    WRITE,
    by_lower_name,
    names_of,
    properties_in,
)
from deltanb.store.storage_options import access_of
from deltanb.store.uris import is_served, parse
from deltanb.table.entry import is_like_a_name
from deltanb.text.formatting import did_you_mean

__all__ = ["ReadOptions", "SparkOptions", "WriteOptions"]

_SAVE_MODES = ("append", "error", "errorifexists", "ignore")


NO_NAMES = (
    "Names of Spark's own catalog (saveAsTable, CREATE TABLE … USING deltanb, INSERT INTO) cannot be tables "
    "of this format, since Spark does not tell their paths when they are read: give a path a name by "
    "deltanb.spark.register(session, {name: path}), by "
    "CREATE TEMPORARY VIEW name USING deltanb OPTIONS (path '…'), or use a deltanb.Catalog. If CREATE TABLE "
    "has left a name that cannot be read, DROP TABLE removes it")


class SparkOptions:
    """The options of one reader or writer; those that are taken are of a kind, the others are known by name.

    Args:
        options: as Spark hands them over, names in any case.
        use: who takes them, one of :data:`~deltanb.sources.spark.option_table.USES`.
    """

    def __init__(self, options: Mapping[str, str], use: str) -> None:
        self.use = use
        names = by_lower_name([use])
        self._values: dict[str, str] = {}
        others: dict[str, str] = {}
        takes_properties = use in (WRITE, STREAM_WRITE)
        self.properties = properties_in(options) if takes_properties else {}
        for spelling, value in options.items():
            if takes_properties and spelling.lower().startswith(PROPERTIES):
                continue
            name = names.get(spelling.lower())
            if name is None:
                others[spelling] = value
            elif self._values.setdefault(name, value) != value:
                raise InvalidArgument(
                    f'option {name!r} of format("deltanb") has two values, {self._values[name]!r} and, as '
                    f"{spelling!r}, {value!r}; give one of them")
        self.path = self._values.get("path", "")
        if not self.path or "provider" in others:  # CREATE TABLE tells who provides the table
            raise InvalidArgument(
                f'{use} with format("deltanb") needs the path of a table: .load(path), .save(path), or '
                f'.option("path", path). {NO_NAMES}')
        if is_like_a_name(self.path):
            raise InvalidArgument(
                f"{self.path!r} is written like the name of a table in a catalog, and "
                f'format("deltanb") takes paths. Of deltanb.open({self.path!r}) to_df() is a frame, and '
                f"append(frame) writes one; a folder of this name is './{self.path}'")
        self.storage_options = self._of_bucket(others)
        for name, instead in IMPOSSIBLE.items():
            if self.flag(name):
                raise InvalidArgument(
                    f'option {name!r} of format("deltanb") can be false alone, since Spark does not pass on '
                    f"to a source in Python what it would take; {instead.replace('`', '')}")

    def _of_bucket(self, others: dict[str, str]) -> dict[str, str]:
        elsewhere = by_lower_name()
        for spelling in others:
            if (name := elsewhere.get(spelling.lower())) is not None:
                raise InvalidArgument(
                    f'option {name!r} of format("deltanb") is one of {" and of ".join(OPTIONS[name].uses)}, '
                    f"not of {self.use}; leave it out")
        if others and is_served(self.path):
            access_of(parse(self.path).kind, others)
            return others
        for name in others:
            hint, _ = did_you_mean(name, names_of(self.use), f"options of {self.use}")
            raise InvalidArgument(f'format("deltanb") knows no option {name!r} of {self.use}; {hint}')
        return {}

    def text(self, name: str) -> str | None:
        """A text, None where it is not given."""
        return self._values.get(name)

    def number(self, name: str) -> int | None:
        """A whole number of at least 0."""
        text = self._values.get(name)
        if text is not None and not (text.strip().isascii() and text.strip().isdigit()):
            raise self.wrong(name, "a whole number such as 3")
        return None if text is None else int(text)

    def size(self, name: str) -> int | None:
        """A number of bytes, with a unit or without."""
        text = self._values.get(name)
        try:
            return None if text is None else size_in_bytes(text)
        except ValueError:
            raise self.wrong(name, "a number of bytes such as 1073741824 or 1g") from None

    def file_options(self) -> FileOptions:
        """What is said of the files that are written."""
        values: dict[str, int | str | None] = {
            "targetFileSize": self.size("targetFileSize"),
            "maxRecordsPerFile": self.number("maxRecordsPerFile"), "compression": self.text("compression")}
        try:
            return FileOptions.of({name: value for name, value in values.items() if value is not None})
        except InvalidArgument as error:
            raise InvalidArgument(f'an option of format("deltanb"): {error.message}') from None

    def flag(self, name: str, default: bool = False) -> bool:
        """True or false, in any case."""
        text = self._values.get(name, str(default)).strip().lower()
        if text not in ("true", "false"):
            raise self.wrong(name, "true or false")
        return text == "true"

    def one_of(self, name: str, choices: Collection[str]) -> str | None:
        """One of some words, in any case."""
        text = self._values.get(name)
        if text is not None and text.strip().lower() not in choices:
            raise self.wrong(name, f"one of {', '.join(choices)}")
        return None if text is None else text.strip().lower()

    def names(self, name: str) -> tuple[str, ...] | None:
        """Names with commas between them, or a JSON list for names that have commas."""
        text = self._values.get(name)
        if text is None:
            return None
        names: object = text.split(",")
        if text.lstrip().startswith("["):
            try:
                names = json.loads(text)
            except ValueError:
                names = None
        if not isinstance(names, list) or not all(isinstance(one, str) and one.strip() for one in names):
            raise self.wrong(name, 'names of columns such as a,b or ["a", "b"]')
        return tuple(one.strip() for one in names)

    def wrong(self, name: str, expected: str) -> InvalidArgument:
        """The error for a value that an option cannot have."""
        return InvalidArgument(
            f'option {name!r} of format("deltanb") is {expected}, found {self._values.get(name)!r}')

    def contradict(self, *pairs: tuple[Iterable[str], Iterable[str]]) -> None:
        """Refuse options that are given though others of each pair are."""
        for ones, others in pairs:
            one = next((name for name in ones if name in self._values), None)
            other = next((name for name in others if name in self._values), None)
            if one is not None and other is not None:
                raise InvalidArgument(
                    f'options {one!r} and {other!r} of format("deltanb") contradict each other; give one of '
                    "them")


@dataclass(frozen=True)
class ReadOptions:
    """What is read: a version, or the changes of some."""

    path: str
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    version: int | None = None
    timestamp: str | None = None
    changes: bool = False
    start: int | str | None = None
    end: int | str | None = None
    where: str | None = None

    @classmethod
    def of(cls, options: Mapping[str, str]) -> ReadOptions:
        """The options of a reader.

        Raises:
            InvalidArgument: one that is not known, of a wrong value, or that contradicts another.

        >>> ReadOptions.of({"path": "lake/flights", "versionasof": "3"}).version
        3
        >>> ReadOptions.of({"path": "lake/flights", "versionOf": "3"})
        Traceback (most recent call last):
            ...
        deltanb.errors.InvalidArgument: format("deltanb") knows no option 'versionOf' ...; did you mean ...?
        """
        taken = SparkOptions(options, READ)
        begins, ends = ("startingVersion", "startingTimestamp"), ("endingVersion", "endingTimestamp")
        taken.contradict((["versionAsOf"], ["timestampAsOf"]), (begins[:1], begins[1:]), (ends[:1], ends[1:]),
                         (("versionAsOf", "timestampAsOf"), ("readChangeFeed", *begins, *ends)))
        changes = taken.flag("readChangeFeed")
        for name in (*begins, *ends):
            if taken.text(name) is not None and not changes:
                raise InvalidArgument(
                    f'option {name!r} of format("deltanb") is for the change data feed; give '
                    '.option("readChangeFeed", "true") too, or "versionAsOf" to read a version')
        start, end = taken.number(begins[0]), taken.number(ends[0])
        if changes and start is None and taken.text(begins[1]) is None:
            raise InvalidArgument(
                'option "readChangeFeed" of format("deltanb") needs a beginning: give '
                '.option("startingVersion", 0), or "startingTimestamp". A stream needs none: it begins with '
                "the table as it is")
        return cls(taken.path, taken.storage_options, taken.number("versionAsOf"),
                   taken.text("timestampAsOf"), changes,
                   taken.text(begins[1]) if start is None else start,
                   taken.text(ends[1]) if end is None else end, taken.text("where"))


@dataclass(frozen=True)
class WriteOptions:
    """How rows are written."""

    path: str
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    where: str | None = None
    merge_schema: bool = False
    overwrite_schema: bool = False
    partition_overwrite: str = "static"
    partition_by: tuple[str, ...] | None = None
    txn: tuple[str, int] | None = None
    user_metadata: str | None = None
    file_options: FileOptions = field(default_factory=FileOptions)
    save_mode: str = "append"
    replace_using: tuple[str, ...] | None = None
    replace_on: str | None = None
    target_alias: str | None = None
    data_change: bool = True
    cluster_by: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, options: Mapping[str, str], overwrite: bool) -> WriteOptions:
        """The options of a writer in the mode ``append`` or, with ``overwrite``, that one.

        Raises:
            InvalidArgument: one that is not known, of a wrong value, or of no use in this mode.
        """
        taken = SparkOptions(options, WRITE)
        txn = taken.text("txnAppId"), taken.number("txnVersion")
        if (txn[0] is None) != (txn[1] is None):
            raise InvalidArgument(
                'options "txnAppId" and "txnVersion" of format("deltanb") belong together; give both')
        made = cls(
            path=taken.path,
            storage_options=taken.storage_options,
            where=taken.text("replaceWhere"),
            merge_schema=taken.flag("mergeSchema"),
            overwrite_schema=taken.flag("overwriteSchema"),
            partition_overwrite=taken.one_of("partitionOverwriteMode", ("static", "dynamic")) or "static",
            partition_by=taken.names("partitionBy"),
            txn=None if txn[0] is None or txn[1] is None else (txn[0], txn[1]),
            user_metadata=taken.text("userMetadata"),
            file_options=taken.file_options(),
            save_mode=taken.one_of("saveMode", _SAVE_MODES) or "append",
            replace_using=taken.names("replaceUsing"),
            replace_on=taken.text("replaceOn"),
            target_alias=taken.text("targetAlias"),
            data_change=taken.flag("dataChange", True),
            cluster_by=taken.names("clusterBy") or (),
            properties=taken.properties)
        taken.contradict((["replaceWhere"], ["replaceOn", "replaceUsing"]), (["replaceOn"], ["replaceUsing"]))
        for name, is_set in (("replaceWhere", made.where is not None),
                               ("replaceOn", made.replace_on is not None),
                               ("replaceUsing", made.replace_using is not None),
                               ("overwriteSchema", made.overwrite_schema),
                               ("partitionOverwriteMode", made.partition_overwrite == "dynamic")):
            if is_set and not overwrite:
                raise InvalidArgument(
                    f'option {name!r} of format("deltanb") is for .mode("overwrite"); leave it out, or '
                    "write in that mode")
        if overwrite and taken.text("saveMode") is not None:
            raise InvalidArgument(
                'option "saveMode" of format("deltanb") is for .mode("append"), since Spark has no other '
                "modes for such a source; leave it out")
        return made
