"""What is known of the failed job, fact by fact, and from where.

What lives here: :func:`gather`, which puts together arguments, the text or exception, and this session's
journal; an argument is believed before a text, and a text before what is inferred.
What it does not know: the conflict rules, and which commit ended the job.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from deltanb.actions import CommitInfo
from deltanb.errors import DeltaError, InvalidArgument, UnsupportedPredicate, require
from deltanb.log.commit_times import to_milliseconds
from deltanb.observe.post_mortem.error_text import ParsedError, parse_error
from deltanb.observe.post_mortem.report import SOURCES, Fact, Source
from deltanb.observe.recorded import parameters_of, recorded_condition
from deltanb.transaction.conflicts import Conflict
from deltanb.transaction.journal import Attempt, journal_of

if TYPE_CHECKING:
    from deltanb.log.reader import LogReader
    from deltanb.schema.types import StructType
    from deltanb.sql.predicates import Condition

SPELLINGS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "APPEND": ("WRITE", {"mode": "Append"}), "INSERT": ("WRITE", {"mode": "Append"}),
    "INSERT INTO": ("WRITE", {"mode": "Append"}), "OVERWRITE": ("WRITE", {"mode": "Overwrite"}),
    "INSERT OVERWRITE": ("WRITE", {"mode": "Overwrite"}), "COMPACT": ("OPTIMIZE", {}),
    "UPSERT": ("MERGE", {}), "MERGE INTO": ("MERGE", {}), "DELETE FROM": ("DELETE", {}),
    "TRUNCATE TABLE": ("TRUNCATE", {}),
}
"""Operations as people call them: their names in the log, and their parameters."""
CONDITIONAL = ("DELETE", "UPDATE", "MERGE")
"""Operations that read what their condition names."""


@dataclass
class Job:
    """The failed job: its facts by name, what its text tells, and its own conflict where it is at hand.

    ``is_doubted``: its text may be about another table, so that nothing is certain of it.
    """

    facts: dict[str, Fact] = field(default_factory=dict)
    parsed: ParsedError = field(default_factory=ParsedError)
    has_text: bool = False
    conflict: Conflict | None = None
    attempt: Attempt | None = None
    error: BaseException | None = None
    remarks: list[str] = field(default_factory=list)
    is_doubted: bool = False

    def add(self, name: str, value: Any, source: Source, why: str = "") -> None:
        """Note a fact; the first one of a name stays."""
        assert source in SOURCES
        if value is not None and name not in self.facts:
            self.facts[name] = Fact(name, value, source, why)

    def value(self, name: str) -> Any:
        """The value of a fact, None where it is not known."""
        fact = self.facts.get(name)
        return None if fact is None else fact.value

    def is_certain(self, *names: str) -> bool:
        """Whether all of these facts are known, none of them is inferred, and it is the same table."""
        return not self.is_doubted and all(
            name in self.facts and not self.facts[name].is_inferred for name in names)

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules by which it failed, according to its text."""
        if self.conflict is not None:
            return (self.conflict.rule,)
        return self.parsed.rules

    @property
    def is_taken(self) -> bool:
        """Whether it failed by no rule, but because others had the versions that it tried."""
        text = self.parsed.text
        return self.conflict is None and text is not None and not text.rules and not text.is_unchecked

    @property
    def is_unchecked(self) -> bool:
        """Whether its commit is of a kind that is not checked against winners."""
        text = self.parsed.text
        return self.conflict is None and text is not None and text.is_unchecked

    def commit_info(self) -> CommitInfo:
        """The commitInfo that its commit would have had, as far as it is known."""
        name, parameters = _operation(self.value("operation"))
        predicate = self.value("predicate")
        if predicate is not None:
            texts = conjuncts_of_merge(predicate) if name == "MERGE" else [predicate]
            parameters = {**parameters, "predicate": texts}
            if name == "WRITE":
                parameters["mode"] = "Overwrite"
        is_append = name == "WRITE" and parameters.get("mode") == "Append"
        has_read = set(self.rules) & {"append", "delete / read", "delete / delete"}
        return CommitInfo(
            operation=name, operation_parameters=parameters, user_name=self.value("writer"),
            is_blind_append=True if is_append and not has_read else None)


    def condition(self, schema: StructType) -> tuple[Condition | None, str]:
        """The job's condition over a table's columns, as far as it is understood, and what of it is not."""
        from deltanb.sql.predicates import Condition

        text = self.value("predicate")
        if text is None:
            return None, "the job's condition is not known; with it (predicate=…), rows can be compared"
        known = recorded_condition(parameters_of(self.commit_info()), schema)
        rest = (*known.left_out, *known.unknown)
        if not known.parts:
            return None, f"the job's condition is not understood: {' AND '.join(rest)}"
        reason = UnsupportedPredicate(f"not understood: {' AND '.join(rest)}") if rest else None
        return Condition(text, known.parts, rest, reason), reason.message if reason is not None else ""


TARGETS = frozenset({"t", "tgt", "trg", "target", "dest", "destination", "existing", "old"})
"""Aliases by which people call the target of a MERGE; columns of others may be the source's."""


def conjuncts_of_merge(condition: str) -> list[str]:
    """The parts that AND joins in the condition of a MERGE, without the target's alias.

    >>> conjuncts_of_merge("t.id = s.id AND t.day = 'mon'")
    ['id = s.id', "day = 'mon'"]
    """
    from sqlglot import exp

    from deltanb.sql.syntax import conjuncts, syntax

    try:
        parts = conjuncts(syntax(condition))
    except (DeltaError, ValueError, RecursionError):
        return [condition]
    for part in parts:
        for column in part.find_all(exp.Column):
            if column.table.lower() in TARGETS and not column.db:
                column.set("table", None)
    return [part.sql(dialect="spark") for part in parts]


def _operation(name: Any) -> tuple[str | None, dict[str, Any]]:
    if not isinstance(name, str):
        return None, {}
    known, parameters = SPELLINGS.get(" ".join(name.upper().split()), (name.upper(), {}))
    return known, dict(parameters)


def gather(
    log: LogReader, error: str | BaseException | None, read_version: int | None,
    started: int | str | dt.date | None, predicate: str | None, operation: str | None, writer: str | None,
) -> Job:
    """Everything that is known of the job.

    Raises:
        InvalidArgument: an argument of another type, or nothing that the job could be known by.
    """
    job = Job()
    _arguments(job, error, read_version, started, predicate, operation, writer)
    if isinstance(error, BaseException):
        job.error = error
        conflict = getattr(error, "conflict", None)
        if isinstance(conflict, Conflict):
            _of_conflict(job, log, conflict)
        error = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    if error is not None:
        job.has_text = True
        _of_text(job, error)
    return job


def _arguments(
    job: Job, error: Any, read_version: Any, started: Any, predicate: Any, operation: Any, writer: Any
) -> None:
    for name, value, kind, what in (
            ("error", error, (str, BaseException), "the text of an exception, or the exception"),
            ("read_version", read_version, int, "a version (an integer)"),
            ("predicate", predicate, str, "a condition (SQL text)"),
            ("operation", operation, str, "the name of an operation"),
            ("writer", writer, str, "the name of a writer")):
        if value is not None:
            require(value, kind, f"post_mortem({name}=…)", what)
    if isinstance(read_version, int) and read_version < 0:
        raise InvalidArgument(f"read_version={read_version} is not a version; versions begin at 0")
    if error is None and read_version is None and started is None:
        raise InvalidArgument(
            "nothing is known of the failed job: give its error (the exception, or its text), the version "
            "that it read (read_version=…) or when it started (started=…)")
    job.add("operation", operation, "argument")
    job.add("predicate", _read_condition(operation, predicate), "argument")
    job.add("writer", writer, "argument")
    job.add("read version", read_version, "argument")
    if started is not None:
        moment = _moment(started)
        job.add("started", to_milliseconds(moment), "argument")
        if _has_no_zone(moment):
            job.remarks.append(f"started={str(started)!r} has no time zone and was taken as UTC")


def _moment(started: Any) -> Any:
    """A time as :func:`to_milliseconds` takes it: a day is its midnight, a small z is a Z as in RFC 3339."""
    if isinstance(started, dt.date) and not isinstance(started, dt.datetime):
        return dt.datetime.combine(started, dt.time())
    if isinstance(started, str):
        return re.sub(r"z\s*\Z", "Z", started)
    return started


def _has_no_zone(started: Any) -> bool:
    if isinstance(started, str):
        started = dt.datetime.fromisoformat(started.strip().replace("Z", "+00:00"))
    return isinstance(started, dt.datetime) and started.tzinfo is None


def _of_conflict(job: Job, log: LogReader, conflict: Conflict) -> None:
    """The facts of an exception of ours, which brings the whole conflict."""
    job.conflict = conflict
    job.attempt = next((one for one in journal_of(log)
                        if one.txn_id == conflict.commit_info.txn_id and one.outcome == "failed"), None)
    name = getattr(conflict.operation, "name", conflict.operation)
    job.add("operation", str(name), "session")
    asked = dict.fromkeys(one for one in conflict.predicates if one != "TRUE")
    job.add("predicate", " OR ".join(asked) or None, "session")
    job.add("read version", conflict.read_version, "session")
    job.add("writer", conflict.commit_info.user_name, "session")
    job.add("winner", conflict.version, "session")
    job.add("rule", conflict.rule, "session")
    job.add("isolation", conflict.isolation, "session")


def _of_text(job: Job, text: str) -> None:
    parsed = job.parsed = parse_error(text)
    facts = parsed.facts
    if parsed.text is None and job.conflict is None and parsed.facts:
        known = {name.replace("_", " "): value for name, value in parsed.facts.items()}
        job.remarks.append("the text is not one of the known texts of failed commits; understood of it: "
                           + json.dumps(known, default=str, ensure_ascii=False))
    job.add("operation", facts.get("operation"), "text")
    frame = facts.get("frame_operation")
    if frame is not None:
        job.add("operation", frame, "text")
    if parsed.text is not None:
        job.add("known text", parsed.text.code, "text")
        job.add("rule", " or ".join(parsed.rules) or None, "text")
    if job.conflict is None:
        read = facts.get("files_read") or _read_condition(job.value("operation"), facts.get("predicate"))
        job.add("predicate", read, "text")
    job.add("read version", facts.get("read_version"), "text")
    job.add("client", facts.get("engine"), "text")
    job.add("last tried" if job.is_taken else "winner", facts.get("version"), "text")
    job.add("partition met", facts.get("partition"), "text")
    if "first_tried" in facts:
        job.add("read version", facts["first_tried"] - 1, "text")
    for name in parsed.too_long:
        job.remarks.append(f"the {name.replace('_', ' ')} in the text has more digits than any of a log")
    if parsed.others:
        job.remarks.append(f"the text has other failures before the last one: {', '.join(parsed.others)}")


def _read_condition(operation: Any, stated: str | None) -> str | None:
    """The condition by which an operation read, from the one that a person wrote: a constraint is added after
    a look for the rows that would break it.

    >>> _read_condition("DELETE", "n > 0"), _read_condition("ADD CONSTRAINT", "n > 0")
    ('n > 0', 'NOT (n > 0\\n) OR (n > 0\\n) IS NULL')
    """
    from deltanb.sql.predicates import untrue_text

    is_constraint = _operation(operation)[0] == "ADD CONSTRAINT"
    return untrue_text(stated) if stated is not None and is_constraint else stated


_PAIR = re.compile(r"([^=,\[\]]+)=([^,\]]*)")


def partition_of_hint(hint: str) -> Iterator[tuple[str, str | None]]:
    """The columns and values of a hint as Delta writes it.

    >>> list(partition_of_hint("[day=mon, hour=null]"))
    [('day', 'mon'), ('hour', None)]
    """
    for match in _PAIR.finditer(hint):
        value = match[2].strip()
        yield match[1].strip(), None if value in ("null", "") else value

