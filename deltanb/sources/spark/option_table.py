"""Every option of ``format("deltanb")``: one table, read by the code that takes options and by ``docs``.

What lives here: :data:`OPTIONS`, each with its values, its meaning and who takes it; :data:`NOT_RECEIVED`,
what Spark's API has and does not pass on to a data source in Python; :func:`as_markdown`.
What it does not know: what an option does (``read``, ``write``, ``stream``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from deltanb.errors import InvalidArgument
from deltanb.schema import properties
from deltanb.text.formatting import did_you_mean

__all__ = ["IMPOSSIBLE", "NOT_RECEIVED", "OPTIONS", "PROPERTIES", "READ", "STREAM_READ", "STREAM_WRITE",
           "USES", "WRITE", "Option", "as_markdown", "by_lower_name", "names_of", "properties_in"]

READ, WRITE, STREAM_READ, STREAM_WRITE = USES = (
    "reading", "writing", "reading a stream", "writing a stream")
"""Who takes options: ``spark.read``, ``df.write``, ``spark.readStream`` and ``df.writeStream``."""
PROPERTIES = "delta."
"""Begins options that are properties of the table."""
FLAG, NUMBER, SIZE, COLUMNS, TEXT = (
    "`true` or `false`", "a whole number", "bytes, as `1073741824` or `1g`", 'columns: `a,b` or `["a", "b"]`',
    "a text")


@dataclass(frozen=True)
class Option:
    """One option: its name as people write it, its values, what it means, and who takes it.

    ``aliases`` are other names for it. ``differs`` says in what it is not as in Delta Spark. ``is_ours`` are
    options that Delta Spark does not have.
    """

    name: str
    values: str
    meaning: str
    uses: tuple[str, ...]
    aliases: tuple[str, ...] = ()
    differs: str = ""
    is_ours: bool = False


OPTIONS: dict[str, Option] = {}
"""Every option by its name."""


def _option(
    name: str, values: str, meaning: str, *uses: str, aliases: tuple[str, ...] = (), differs: str = "",
    is_ours: bool = False,
) -> None:
    OPTIONS[name] = Option(name, values, meaning, uses, aliases, differs, is_ours)


_option("path", TEXT,
        "The table's folder, or its place in a bucket. `.load(path)`, `.save(path)` and `.start(path)` "
        "set it.",
        *USES)

# -- reading --------------------------------------------------------------------------------------------
_option("versionAsOf", NUMBER,
        "Read this version.",
        READ)
_option("timestampAsOf", "a time, ISO 8601",
        "Read the version that was the newest at this time.",
        READ)
_option("where", "a condition in SQL",
        "Read only the rows for which it is true; files and row groups without such rows are left out.",
        READ, is_ours=True)
_option("readChangeFeed", FLAG,
        "Read what each version inserted, deleted and updated. A batch needs a beginning; a stream "
        "without one begins with all rows of the table, as inserted.",
        READ, STREAM_READ, aliases=("readChangeData",))
_option("startingVersion", "a version; for a stream, also `latest`",
        "The first version of the change feed. A stream begins with this version's changes, with `latest`"
        " with those from now on.",
        READ, STREAM_READ,
        differs="Without `readChangeFeed`, a batch refuses it; Delta Spark reads the newest version.")
_option("endingVersion", "a version",
        "The last version of the change feed.",
        READ)
_option("startingTimestamp", "a time, ISO 8601",
        "As `startingVersion`: the first version at or after this time.",
        READ, STREAM_READ)
_option("endingTimestamp", "a time, ISO 8601",
        "As `endingVersion`: the last version at or before this time.",
        READ)

# -- reading a stream -----------------------------------------------------------------------------------
_option("maxFilesPerTrigger", "a whole number of at least 1",
        "Files in a micro-batch at most; 1000 unless one of the two limits is set.",
        STREAM_READ)
_option("maxBytesPerTrigger", SIZE,
        "Bytes of files in a micro-batch; a batch has at least one file.",
        STREAM_READ)
_option("ignoreDeletes", FLAG,
        "Continue after commits that only remove rows.",
        STREAM_READ)
_option("ignoreChanges", FLAG,
        "Continue after commits that remove or rewrite rows, and read all rows of the files they add: "
        "also those that were only written again, a second time.",
        STREAM_READ, aliases=("ignoreFileDeletion",))
_option("skipChangeCommits", FLAG,
        "Leave out commits that remove or rewrite rows, with the rows they add.",
        STREAM_READ)
_option("failOnDataLoss", FLAG,
        "`false` continues with the commits that the log still has where it was cleaned up. What the "
        "others brought is lost to the stream.",
        STREAM_READ)
_option("excludeRegex", "a regular expression",
        "Leave out the files in whose paths it matches anywhere. Paths are those of the log, "
        "percent-encoded.",
        STREAM_READ, differs="It is an expression of Python; Delta Spark's are Java's.")
_option("publishedCommits", FLAG,
        "Of a table that a catalog manages, read the commits that are in its folder: those that it has "
        "ratified and that are not published yet come later. `table.read_stream()` says so by itself.",
        STREAM_READ, is_ours=True)
_option("schemaTrackingLocation", "a folder of this stream, as one below its checkpoint",
        "Remember there which columns the stream has: it reads all rows from before a change of columns, "
        "also one that renames or drops some, as they were. Then it stops; started again, it goes on with "
        "the new columns.",
        STREAM_READ, aliases=("schemaLocation",),
        differs="Starting again is all the consent that is needed: there is no `allowSourceColumnRename`, "
                "`allowSourceColumnDrop` or `allowSourceColumnTypeChange`.")
_option("streamingSourceTrackingId", TEXT,
        "Tells two sources of one stream apart that read the same table with one `schemaTrackingLocation`.",
        STREAM_READ)
_option("withEventTimeOrder", "`false`",
        "The rows of the first version come in the order in which their files were written.",
        STREAM_READ, differs="`true` is refused; Delta Spark 4.4 takes it and does nothing.")

# -- writing --------------------------------------------------------------------------------------------
_option("saveMode", "`append`, `error` or `ignore`",
        'With `.mode("append")`, what to do where there is a table already: refuse the write, or do '
        "nothing.",
        WRITE, is_ours=True)
_option("replaceWhere", "a condition in SQL",
        'With `.mode("overwrite")`, replace only the rows for which it is true. All new rows must satisfy'
        " it.",
        WRITE, differs="Only for overwrites and tables that exist; Delta Spark ignores it elsewhere.")
_option("replaceUsing", COLUMNS,
        'With `.mode("overwrite")`, replace only the rows whose values in these columns a new row has, too. '
        "NULL equals nothing. All new rows are added.",
        WRITE, differs="Only for overwrites; Delta Spark ignores it elsewhere.")
_option("replaceOn", "a condition in SQL",
        'With `.mode("overwrite")`, replace only the rows for which it is true together with a new row, as '
        "`t.id = s.id`. All new rows are added.",
        WRITE, differs="The alias of the frame is not passed on: the other name before columns is taken for "
                "it. Only for overwrites; Delta Spark ignores it elsewhere.")
_option("targetAlias", TEXT,
        "What `replaceOn` and `replaceWhere` call the table, as `t`.",
        WRITE)
_option("partitionOverwriteMode", "`static` or `dynamic`",
        'With `.mode("overwrite")`, `dynamic` replaces only the partitions that have new rows.',
        WRITE)
_option("mergeSchema", FLAG,
        "Add new columns, and new fields of structs, to the table.",
        WRITE, STREAM_WRITE)
_option("overwriteSchema", FLAG,
        'With `.mode("overwrite")` or the output mode `complete`, give the table the columns of the '
        "frame.",
        WRITE, STREAM_WRITE,
        differs="With `mergeSchema`, or in another mode, it is refused; Delta Spark ignores it there.")
_option("partitionBy", COLUMNS,
        "The partition columns of a table that is created, or whose schema is overwritten; none unless "
        "given.",
        WRITE, STREAM_WRITE, is_ours=True)
_option("clusterBy", COLUMNS,
        "The columns by which OPTIMIZE clusters a table that is created, or whose schema is overwritten; "
        "none unless given.",
        WRITE, STREAM_WRITE, is_ours=True)
_option("delta.…", "as in `TBLPROPERTIES`",
        "A property of a table that is created, as `delta.appendOnly`. One that exists keeps its own.",
        WRITE, STREAM_WRITE, differs="Streams of Delta Spark ignore them.")
_option("optimizeWrite", "`false`",
        "Rows are written by the tasks that have them.",
        WRITE, STREAM_WRITE, differs="`true` is refused, as Spark gives a source in Python no say in it.")
_option("dataChange", FLAG,
        "`false` declares that the rows are in the table already, or take the place of equal ones: streams "
        "that read the table leave the commit out. Nothing checks it.",
        WRITE)
_option("txnAppId", TEXT,
        "With `txnVersion`: skip the write if the table has this version of the application, or a later "
        "one, already. A stream counts its batches under this id instead of the query's.",
        WRITE, STREAM_WRITE, differs="Streams of Delta Spark do not take it.")
_option("txnVersion", NUMBER,
        "See `txnAppId`.",
        WRITE)
_option("userMetadata", TEXT,
        "Recorded in each commit.",
        WRITE, STREAM_WRITE)
_option("maxRecordsPerFile", NUMBER,
        "Rows of a data file at most; 0 for any number.",
        WRITE, STREAM_WRITE)
_option("compression", "`snappy`, `zstd`, `gzip`, …",
        "The codec of the data files, instead of `delta.parquet.compression.codec`.",
        WRITE, STREAM_WRITE)
_option("targetFileSize", SIZE,
        "The size of a data file.",
        WRITE, STREAM_WRITE, is_ours=True)

# -- writing a stream -----------------------------------------------------------------------------------
_option("checkpointLocation", "a folder",
        "Spark's record of the stream's progress, one per stream.",
        STREAM_WRITE)
_option("queryName", TEXT,
        "The stream's name; `.queryName(name)` sets it for Spark alone.",
        STREAM_WRITE)


IMPOSSIBLE = {
    "optimizeWrite": 'give the frame tasks of even size before the write: `df.hint("rebalance", "p")`',
    "withEventTimeOrder": 'read commits in their order: `.option("startingVersion", 0)`',
}
"""Options that can be `false` alone -> what to do instead of `true`."""


@dataclass(frozen=True)
class NotReceived:
    """Something of Spark's API that does not reach a data source in Python, and what to do instead."""

    call: str
    happens: str
    instead: str


NOT_RECEIVED = (
    NotReceived(
        '`.mode("error")` (also `errorifexists`, and no mode at all), `.mode("ignore")`',
        "Spark refuses them before it asks the source: it knows only the modes `append` and `overwrite` for "
        "sources of this kind (`UNSUPPORTED_DATA_SOURCE_SAVE_MODE`).",
        '`.mode("append").option("saveMode", "error")` or `"ignore"`'),
    NotReceived(
        "`.partitionBy(…)` and `.clusterBy(…)` of `df.write`",
        "Spark compares them with the columns that the source declares, which in Python can be none, and "
        "refuses the write.",
        '`.option("partitionBy", "a,b")` or `.option("clusterBy", "a,b")`'),
    NotReceived(
        "`.partitionBy(…)` and `.clusterBy(…)` of `df.writeStream`",
        "**Spark drops them without a word**, and the source cannot know.",
        '`.option("partitionBy", "a,b")` or `.option("clusterBy", "a,b")`'),
    NotReceived(
        '`df.alias("s")`, for `replaceOn`',
        "The alias stays in Spark's plan.",
        "name the frame as you like: the name that is not `targetAlias` is the frame's"),
    NotReceived(
        '`.outputMode("update")`',
        "Spark refuses it: a sink in Python takes `append` and `complete`.",
        '`table.write_stream(frame, checkpoint=…, mode="update", keys=[…])`'),
    NotReceived(
        "`.withWatermark(…)`, for `withEventTimeOrder`",
        "The watermark stays in Spark's plan, and a source cannot order its first rows by it.",
        IMPOSSIBLE["withEventTimeOrder"]),
    NotReceived(
        "The rows of `df.write` before they are divided among tasks, for `optimizeWrite`",
        "A source in Python gets each task's rows when they are its own, and cannot move them to another's.",
        IMPOSSIBLE["optimizeWrite"]),
    NotReceived(
        "`saveAsTable`, `toTable`, `writeTo`, `CREATE TABLE … USING deltanb`",
        "Spark's catalog does not pass on the path of a named table when it is read.",
        "``deltanb.`path` `` in SQL, or a name by `deltanb.spark.register(session, {name: table})`; or a "
        "`deltanb.Catalog`"),
)
"""What Spark's API has and does not pass on."""


def names_of(*uses: str) -> tuple[str, ...]:
    """The names of the options of some uses, in the order of the table.

    >>> names_of(WRITE)[:2]
    ('path', 'saveMode')
    """
    return tuple(option.name for option in OPTIONS.values() if set(uses) & set(option.uses))


def as_markdown() -> str:
    """The table as ``docs/spark-options.md`` has it."""
    parts = []
    for use, call in zip(USES, ("spark.read", "df.write", "spark.readStream", "df.writeStream"), strict=True):
        taken = [option for option in OPTIONS.values() if use in option.uses]
        parts += [f"## {use.capitalize()}: `{call}.format(\"deltanb\")`\n", "| option | values | meaning |",
                  "|---|---|---|", *(_row(option) for option in taken), ""]
    parts += ["## What Spark does not pass on\n", "| call | what happens | instead |", "|---|---|---|"]
    parts += [f"| {one.call} | {one.happens} | {one.instead} |" for one in NOT_RECEIVED]
    return "\n".join(parts)


def _row(option: Option) -> str:
    names = "<br>".join(f"`{name}`" for name in (option.name, *option.aliases))
    more = f"<br>*Unlike Delta Spark:* {option.differs}" if option.differs else ""
    ours = "<br>*Of deltanb alone.*" if option.is_ours else ""
    return f"| {names} | {option.values} | {option.meaning}{more}{ours} |"


def properties_in(options: Mapping[str, str]) -> dict[str, str]:
    """The table properties among options, spelled as Delta spells them; Spark knows no case of names.

    Raises:
        InvalidArgument: a property that nobody knows, with the one that it is like.

    >>> properties_in({"delta.appendonly": "true", "path": "t"})
    {'delta.appendOnly': 'true'}
    """
    made = {properties.spelled(name): value for name, value in options.items()
            if name.lower().startswith(PROPERTIES)}
    for name in made:
        if not properties.is_known(name):
            hint, _ = did_you_mean(name, properties.PROPERTIES, "properties")
            raise InvalidArgument(f"there is no table property {name!r}; {hint}", property=name)
    return made


def by_lower_name(uses: Iterable[str] = USES) -> dict[str, str]:
    """Names and aliases in lower case -> the name."""
    return {spelling.lower(): option.name for option in OPTIONS.values() if set(uses) & set(option.uses)
            for spelling in (option.name, *option.aliases)}
