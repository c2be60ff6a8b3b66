"""The texts by which writers say that a commit has failed: one table, read by post-mortems and by the docs.

What lives here: :data:`TEXTS`, each with whose it is, the rule that it stands for and what else it tells; and
the traces by which the operation and the writer of a job are known.
What it does not know: how a pasted text is cleaned and read (``error_text``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from deltanb.errors import ConcurrentWriteException, DeltaConcurrentModificationException
from deltanb.transaction.conflict_rules import RULES

DELTA_3, DELTA_4, DATABRICKS, DELTA_RS, OURS = (
    "Delta Spark 3", "Delta Spark 4", "Databricks", "delta-rs", "deltanb")
SPARK = "Delta Spark"
SENTENCES_4 = (DELTA_4, DATABRICKS, OURS)
EVERY_SPARK = (DELTA_3, DELTA_4, DATABRICKS, OURS)

TAKEN = "no rule failed: the version that was tried was taken already"
ADDED = "the winner added files where the job read"
READ_REMOVED = "the winner removed files that the job had read"
BOTH_REMOVED = "the winner removed files that the job was to remove"
REDEFINED = "the winner changed the schema, the properties or the partitioning"


@dataclass(frozen=True)
class Text:
    """A text that a writer ends a commit with.

    ``code`` is a stable name, ``rules`` are the conflict rules that it stands for (none if no rule failed),
    ``pattern`` matches it in a text whose white space is single blanks; its named groups are facts.
    """

    code: str
    writers: tuple[str, ...]
    example: str
    rules: tuple[str, ...]
    meaning: str
    pattern: re.Pattern[str]

    @property
    def is_name(self) -> bool:
        """Whether it is the name of an exception alone: what is left where a text was cut off."""
        return self.code.startswith("name-")

    @property
    def is_unchecked(self) -> bool:
        """Whether it is about a commit that is not checked against winners: any winner ends it."""
        return self.code in UNCHECKED

    @property
    def tells(self) -> tuple[str, ...]:
        """The facts that it has, in words."""
        return tuple(WORDS.get(name, name) for name in self.pattern.groupindex)


UNCHECKED = ("write", "name-concurrent-write")
WORDS: Mapping[str, str] = {
    "winner_operation": "the winner's operation", "table": "the table", "version": "the winner's version",
    "partition": "a partition", "file": "a file", "domain": "the domain", "attempts": "how many attempts",
    "first_tried": "the version tried first", "feature": "the feature", "subclass": "why, in one word",
}
"""What facts are called in the documentation."""
TEXTS: list[Text] = []
"""Every text that is known, names of exceptions last."""


def _text(
    code: str, writers: tuple[str, ...], rules: str | tuple[str, ...], meaning: str, example: str,
    pattern: str,
) -> None:
    names = (rules,) if isinstance(rules, str) else rules
    TEXTS.append(Text(code, writers, example, names, meaning, re.compile(pattern)))


# -- Delta Spark 4, Databricks and deltanb ------------------------------------------------------------------

_HINTED = r"\[[^\]]{0,2000}\]"
"""A partition in brackets. Nothing that may begin often goes on without a bound: a text of megabytes that has
the beginning a thousand times would be gone through as often."""
_WHO = r"[Aa] concurrent (?P<winner_operation>[A-Za-z][\w ]{0,60}?)"
_WHERE = r"table (?P<table>.{1,400}?) \(?committed at version (?P<version>\d+)\)?"
_HINT = (r"(?:\.? The concurrent operation (?:modified|deleted) data in the partition "
         rf"(?P<partition>{_HINTED}))?")

_text("append", SENTENCES_4, "append", ADDED,
      "a concurrent WRITE added data to table ducks committed at version 7",
      rf"{_WHO} added data to {_WHERE}{_HINT}")
_text("delete-read", SENTENCES_4, "delete / read", READ_REMOVED,
      "a concurrent DELETE deleted data from table ducks (committed at version 7) that this transaction read",
      rf"{_WHO} deleted data from {_WHERE} that this transaction read{_HINT}")
_text("delete-delete", SENTENCES_4, "delete / delete", BOTH_REMOVED,
      "a concurrent DELETE deleted data from table ducks (committed at version 7) that this transaction "
      "attempted to delete",
      rf"{_WHO} deleted data from {_WHERE} that this transaction attempted to delete{_HINT}")
_text("domain", SENTENCES_4, "domain metadata", "the winner and the job wrote the same metadata domain",
      "A conflicting metadata domain clustering is added",
      r"A conflicting metadata domain (?P<domain>\S+) is added")
_text("feature-drop", SENTENCES_4, "protocol", "the winner used the feature that the job drops",
      "Cannot drop feature because a concurrent transaction modified the table",
      r"Cannot drop feature because a concurrent transaction modified the table|"
      r"feature (?P<feature>\S+) cannot be dropped, version (?P<version>\d+)")

# -- Delta Spark 3 and older runtimes of Databricks ------------------------------------------------------

_PLACE_3 = rf"(?: in (?:the root of the table|(?:the )?partition (?P<partition>{_HINTED})))?"
_FILE_3 = rf"(?: \(for example (?P<file>\S+?){_PLACE_3}\))?"

_text("files-added", (DELTA_3, DATABRICKS), "append", ADDED,
      "Files were added to partition [day=mon] by a concurrent update",
      rf"Files were added to (?:the root of the table|(?:the )?partitions? ?(?P<partition>{_HINTED})?)"
      r".{0,400}? by a concurrent update")
_text("files-read-deleted", (DELTA_3, DATABRICKS), "delete / read", READ_REMOVED,
      "This transaction attempted to read one or more files that were deleted (for example part-0.parquet in "
      "the root of the table) by a concurrent update",
      rf"attempted to read one or more files that were deleted{_FILE_3}")
_text("files-deleted-twice", (DELTA_3, DATABRICKS), "delete / delete", BOTH_REMOVED,
      "This transaction attempted to delete one or more files that were deleted (for example part-0.parquet "
      "in the root of the table) by a concurrent update",
      rf"attempted to delete one or more files that were deleted{_FILE_3}")

# -- all of these -------------------------------------------------------------------------------------------

_text("metadata", EVERY_SPARK, "metadata", REDEFINED,
      "The metadata of the Delta table ducks has been changed by a concurrent update",
      r"The metadata of the Delta table (?:(?P<table>\S+) )?has been changed by a concurrent update")
_text("protocol", EVERY_SPARK, "protocol", "the winner changed the protocol, or created the table",
      "The protocol version of the Delta table has been changed by a concurrent update",
      r"The protocol version of the Delta table has been changed by a concurrent update")
_text("streams", EVERY_SPARK, "application id", "the winner wrote under the job's application id",
      "multiple streaming queries are using the same checkpoint to write into this table",
      r"multiple streaming queries are using the same checkpoint to write into this table")
_text("write", EVERY_SPARK, (), "the commit is not checked against winners, and its version was taken",
      "A concurrent transaction has written new data since the current transaction read the table",
      r"A concurrent transaction has written new data since the current transaction read the table")
_text("retries", EVERY_SPARK, (), TAKEN,
      "This commit has failed as it has been tried 5 times but did not succeed. … Commit started at version: "
      "3 Commit failed at version: 7",
      r"This commit has failed as it has been tried (?P<attempts>\d+) times but did not succeed"
      r"(?:.{0,200}?Commit started at version: (?P<first_tried>\d+))?"
      r"(?: Commit failed at version: (?P<version>\d+))?")

# -- delta-rs -----------------------------------------------------------------------------------------------

_RS = (DELTA_RS,)
_text("rs-append", _RS, "append", ADDED, "Commit failed: a concurrent transactions added new data",
      r"a concurrent transactions? added new data")
_text("rs-delete-read", _RS, "delete / read", READ_REMOVED,
      "Commit failed: a concurrent transaction deleted data this operation read",
      r"a concurrent transaction deleted data this operation read")
_text("rs-delete-delete", _RS, "delete / delete", BOTH_REMOVED,
      "Commit failed: a concurrent transaction deleted the same data your transaction deletes",
      r"a concurrent transaction deleted the same data your transaction deletes")
_text("rs-metadata", _RS, "metadata", REDEFINED,
      "Failed to commit transaction: Metadata changed since last commit",
      r"Metadata changed since last commit")
_text("rs-protocol", _RS, "protocol", "the winner changed the protocol",
      "Failed to commit transaction: Protocol changed since last commit",
      r"Protocol changed since last commit")
_text("rs-application", _RS, "application id", "the winner wrote under the job's application id",
      "Failed to commit transaction: Concurrent transaction failed.", r"Concurrent transaction failed\.")
_text("rs-retries", _RS, (), TAKEN, "Failed to commit transaction: 15",
      r"Failed to commit transaction: (?P<attempts>\d+)(?=[\s.,\"')]|$)")
_text("rs-version", _RS, (), TAKEN, "Tried committing existing table version: 7",
      r"(?:Tried committing existing table version: |Delta transaction failed, version )"
      r"(?P<version>\d+)(?: already exists)?")

# -- what is left of a text that was cut off --------------------------------------------------------------


def _by_name() -> None:
    """The names of the exceptions and conditions, each with the rules that raise it."""
    rules: dict[type[DeltaConcurrentModificationException], list[str]] = {ConcurrentWriteException: []}
    for rule in RULES:
        if rule.exception is not None:
            rules.setdefault(rule.exception, []).append(rule.name)
    for exception, names in rules.items():
        title, condition = exception.__name__, exception.error_class
        meaning = next((rule.failed for rule in RULES if rule.name in names), TAKEN)
        _text(f"name-{exception.kind.lower().replace('_', '-')}", EVERY_SPARK, tuple(names), meaning,
              f"{title}, {condition}", rf"{title}|{condition}")


_by_name()

# -- the job ------------------------------------------------------------------------------------------------

_ON_TABLE = r"(?: on .{1,40}?)?"  # in our sentences; names of tables may have blanks, and are cut
_RS_FRAME = r"deltalake\S{0,80}\.py\", line \d{1,9}, in"
_OUR_FRAME = r"deltanb/table/table\.py\", line \d{1,9}, in"
FRAMES: tuple[tuple[str, str], ...] = (
    ("MERGE", rf"\.commands\.MergeIntoCommand\b|{_RS_FRAME} execute\b|in merge_steps\b|{_OUR_FRAME} merge\b"),
    ("DELETE", rf"\.commands\.DeleteCommand\b|{_RS_FRAME} delete\b|{_OUR_FRAME} delete\b"),
    ("UPDATE", rf"\.commands\.UpdateCommand\b|{_RS_FRAME} update\b|{_OUR_FRAME} update\b"),
    ("OPTIMIZE", rf"\.commands\.Optimize(?:Table|Executor)|{_RS_FRAME} (?:compact|z_order)\b|"
                 rf"{_OUR_FRAME} optimize\b"),
    ("RESTORE", rf"\.commands\.RestoreTableCommand\b|{_RS_FRAME} restore\b|{_OUR_FRAME} restore\b"),
    ("STREAMING UPDATE", r"\.delta\.sources\.DeltaSink\b"),
    ("ALTER TABLE", rf"\.commands\.AlterTable\w+|{_RS_FRAME} (?:add_|drop_|set_)\w+|"
                    rf"{_OUR_FRAME} (?:add_|drop_|set_|rename_)\w+"),
    ("CREATE TABLE", r"\.commands\.CreateDeltaTableCommand\b"),
    ("WRITE", rf"\.commands\.WriteIntoDelta\b|{_RS_FRAME} write_deltalake\b|"
              rf"{_OUR_FRAME} (?:append|overwrite)\b"),
)
"""The operation of a job by the frames of its stack trace; the first one that is there."""
WRITERS: tuple[tuple[str, str], ...] = (
    (OURS, rf"deltanb\.errors\.|your [A-Z][A-Z ]{{2,60}}?{_ON_TABLE} read files (?:where|for) |"
           r"/deltanb/transaction/"),
    (DATABRICKS, r"com\.databricks\.sql\.transaction\.tahoe|docs\.databricks\.com|Databricks-Runtime"),
    (SPARK, r"io\.delta\.exceptions\.|org\.apache\.spark\.sql\.delta\.|docs\.delta\.io"),
    (DELTA_RS, r"CommitFailedError|Failed to commit transaction: |Commit failed: |deltalake"),
)
"""Whose text it is, by what else is in it; the first one that is there."""
DETAILS: tuple[tuple[str, str], ...] = (
    ("subclass", r"DELTA_CONCURRENT_[A-Z_]{1,60}\.(?P<value>[A-Z_]{1,60})"),
    ("winner_txn", r"Conflicting commit: \{.{0,4000}?\"txnId\":\"(?P<value>[\w-]{1,200})\""),
    ("winner_time", r"Conflicting commit: \{.{0,40}?\"timestamp\":(?P<value>\d+)"),
    ("winner_operation", r"Conflicting commit: \{.{0,900}?\"operation\":\"(?P<value>[^\"]{1,400})\""),
    ("winner_writer", r"Conflicting commit: \{.{0,900}?\"userName\":\"(?P<value>[^\"]{1,400})\""),
    ("version", r"Conflicting commit: version (?P<value>\d+)"),
    ("operation", rf"your (?P<value>[A-Z][A-Z ]{{2,60}}?){_ON_TABLE} "
                  r"(?:read|removes|writes|changes|must|depends)\b"),
    ("predicate", r"\bread files (?:where|for) (?P<value>.{1,2000}?), and version \d+"),
    ("predicate", r"^predicate {2,}(?P<value>\S.*?)(?<! ) {2,}\S"),
    ("files_read", r"^files read {2,}(?P<value>\S.*?)(?<! ) {2,}\S"),
    ("read_version", r"\bread version (?P<value>\d+) → wanted \d+"),
)
"""What else a text may tell, whichever it is, and where it is; of several matches the last one counts."""
LINES = frozenset({"predicate", "files_read"})
"""Details whose place is told by the blanks of a line."""
NOTHING = frozenset({"", "–", "the whole table"})
"""What stands for a value that there is not."""


def as_markdown() -> str:
    """The table as the documentation prints it.

    >>> print(as_markdown().splitlines()[0])
    | text | of | rule | it means | it also tells |
    """
    rows = ["| text | of | rule | it means | it also tells |", "|---|---|---|---|---|"]
    rows += [f"| {text.example} | {', '.join(text.writers)} | {' or '.join(text.rules) or '–'} | "
             f"{text.meaning} | {', '.join(text.tells) or '–'} |" for text in TEXTS]
    return "\n".join(rows) + "\n"
