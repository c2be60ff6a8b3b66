"""The post-mortem of a commit that failed: from what is left of the job, and the log, to one answer.

What lives here: :func:`post_mortem`, the order of the questions, and the verdict as a sentence.
What it does not know: how any of them is answered (the modules beside it).
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from deltanb.commands.define.place import no_table
from deltanb.errors import InvalidArgument
from deltanb.log.reader import LogReader
from deltanb.observe.post_mortem.before import met_before
from deltanb.observe.post_mortem.evidence import Job, gather
from deltanb.observe.post_mortem.judge import Judgement, judge
from deltanb.observe.post_mortem.remedies import remedies
from deltanb.observe.post_mortem.report import POSSIBLE, PROVED, PostMortem, WinnerReport
from deltanb.observe.post_mortem.rows_met import meet
from deltanb.text import formatting as units
from deltanb.text.safe_text import last_part, safe
from deltanb.text.spellings import answer_wrong_arguments
from deltanb.transaction.delta_log import DeltaLog
from deltanb.transaction.reads import partition_key

if TYPE_CHECKING:
    from deltanb.store.base import LogStore
    from deltanb.table.table import DeltaTable

UNEXPLAINED = "unexplained"
MAX_REMARKS = 20
"""Remarks that are listed; of more only the number is given."""


@answer_wrong_arguments()
def post_mortem(
    path_or_table: str | os.PathLike[str] | LogStore | DeltaTable,
    error: str | BaseException | None = None, read_version: int | None = None,
    started: int | str | dt.date | None = None, predicate: str | None = None,
    operation: str | None = None, writer: str | None = None,
    *, storage_options: Mapping[str, Any] | None = None,
) -> PostMortem:
    """Explain why a commit failed, whoever tried it: who won, by which rule, whether rows met, what to do.

    Any part of what is known will do; what is inferred is marked. Nothing is written.

    Args:
        path_or_table: the table: a folder, URI or store, or a handle. A handle pinned to a version is asked
            about commits up to it.
        error: the exception, or its text as pasted: of Delta Spark, Databricks, delta-rs or deltanb.
        read_version: the version that the job read.
        started: when it began: epoch milliseconds, a datetime, a date (its midnight) or ISO 8601 text; UTC
            without a zone.
        predicate: the condition of its DELETE, UPDATE, MERGE or partial overwrite (SQL).
        operation: what it did, as the log names it (``MERGE``), or ``APPEND``, ``OVERWRITE``.
        writer: who ran it, for how often it met the winner before.
        storage_options: access to a bucket, as in :func:`deltanb.open`.

    Raises:
        InvalidArgument: an argument of another type; neither an error, nor a version, nor a time.
        TableNotFound: the place has no log.
        VersionNotFound: the table has no such ``read_version`` yet.
        StorageError: the log cannot be listed.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"name": ["Donald", "Daisy"], "nephews": [3, 0]})
    >>> _ = table.append({"name": ["Scrooge"], "nephews": [1]})
    >>> pm = dn.post_mortem("ducks", read_version=0, operation="DELETE", predicate="nephews = 0")
    >>> pm.rule, pm.rows_met.answer, pm.rows_met.by
    ('append', 'no', 'statistics')
    >>> [remedy.kind for remedy in pm.would_have_passed if remedy.certainty == "proved"]
    ['isolation level', 'row-level rules', 'another time', 'partitioning']
    """
    log, pinned = _log_of(path_or_table, storage_options)
    job = gather(log, error, read_version, started, predicate, operation, writer)
    names = {version: status.name for version, status in log.commits.listed(0)
             if pinned is None or version <= pinned}
    if not names:
        raise no_table(log.store)
    judged = judge(log, job, names)
    met = meet(job, judged)
    would_have_passed = remedies(job, judged, met)
    before = met_before(log, job, judged)
    certainty, verdict = _verdict(job, judged)
    remarks = list(dict.fromkeys(safe(remark) for remark in job.remarks))
    if len(remarks) > MAX_REMARKS:
        remarks = [*remarks[:MAX_REMARKS], f"{len(remarks) - MAX_REMARKS} more are not listed"]
    return PostMortem(
        last_part(log.path), verdict, certainty, tuple(job.facts.values()), tuple(judged.winners),
        judged.num_winners, judged.rule, judged.conflict, met, would_have_passed, before,
        tuple(remarks))


def _log_of(
    table: Any, storage_options: Mapping[str, Any] | None
) -> tuple[LogReader, int | None]:
    """The log of a table, and the version that a handle is pinned to."""
    log = table if isinstance(table, LogReader) else getattr(table, "log", None)
    if isinstance(log, LogReader):
        return log.seen_by_others, getattr(table, "_version", None)
    if hasattr(table, "fields") and not hasattr(table, "list_names"):
        raise InvalidArgument(
            f"post_mortem takes a Delta table or its path, found {type(table).__name__}")
    return DeltaLog.for_table(table, storage_options), None


# -- the verdict ------------------------------------------------------------------------------------------


def _verdict(job: Job, judged: Judgement) -> tuple[str, str]:
    """How certain the answer is, and the answer in one sentence."""
    winner = next((one for one in judged.winners if one.version == judged.culprit), None)
    if winner is None:
        return _without_winner(job, judged)
    name = job.commit_info().operation or "job"
    did = f"version {winner.version}{_by(winner)} {_what(winner, judged, name)}"
    if judged.rule == "version taken":
        rule = "the commit is not checked against winners, so that it failed"
    elif judged.rule is None:
        rule = "which rule it broke is not known"
    else:
        rule = f"the rule {judged.rule!r} {'ended' if judged.is_certain else 'would have ended'} it"
    return PROVED if judged.is_certain else POSSIBLE, f"{did[:1].upper()}{did[1:]}: {rule}."


def _without_winner(job: Job, judged: Judgement) -> tuple[str, str]:
    if job.is_taken:
        attempts = job.parsed.facts.get("attempts")
        took = ", ".join(f"v{one.version}" for one in judged.winners[:5])
        more = f" ({took}{', …' if len(judged.winners) > 5 else ''})" if took else ""
        gave_up = "" if attempts is None else f", until it gave up after {units.count(attempts, 'attempt')}"
        certainty = POSSIBLE if job.is_doubted else PROVED
        return certainty, f"No rule failed: other commits took the versions that it tried{more}{gave_up}."
    if job.has_text and job.parsed.text is None and job.conflict is None:
        head = f": {job.parsed.head.rstrip('.')}" if job.parsed.head else ""
        more = " No commit since the version read conflicts with the job." if judged.num_winners else ""
        return UNEXPLAINED, f"The text is not one of the known texts of failed commits{head}.{more}"
    if job.rules:
        return UNEXPLAINED, (f"The rule {' or '.join(job.rules)!r} ended it; which commit won cannot be "
                             "determined from this log.")
    if judged.num_winners:
        first, last = judged.first, judged.first + judged.num_winners - 1
        span = f"version {first}" if first == last else f"versions {first} to {last}"
        return UNEXPLAINED, (f"By what is known of the job, none of the rules fails at {span}: something "
                             "else ended it, or it read more than is known.")
    return UNEXPLAINED, "No commit has landed since the version that the job read: it met no other commit."


def _by(winner: WinnerReport) -> str:
    """The operation, the writer and the time, in brackets."""
    if winner.outcome == "unreadable":
        return ""
    parts = [winner.operation or "operation not recorded"]
    if winner.writer:
        parts[0] += f" by {winner.writer}"
    if winner.timestamp is not None:
        parts.append(units.time(winner.timestamp))
    return f" ({', '.join(parts)})"


def _what(winner: WinnerReport, judged: Judgement, name: str) -> str:
    """What the winner did, to the job."""
    conflict, rule = judged.conflict, judged.rule or ""
    if winner.outcome == "unreadable" and conflict is None:
        return "won, and its commit cannot be read"
    of_files = rule.startswith("delete")
    count = winner.num_removed if of_files else winner.num_added
    if conflict is not None and conflict.files:
        count = len(conflict.files)
    files = units.count(count, "file")
    where = ""
    if conflict is not None and conflict.partition:
        partitions = {partition_key(file.partition_values) for file in conflict.files}
        where = f" in {len(partitions)} partitions" if len(partitions) > 1 else f" in {conflict.partition}"
    if rule == "append":
        return f"added {files}{where} where the {name} read"
    if rule == "delete / read":
        return f"removed {files}{where} that the {name} had read"
    if rule == "delete / delete":
        return f"removed {files}{where} that the {name} was to remove"
    words = {"metadata": "changed the table's metadata", "protocol": "changed the protocol",
             "application id": f"wrote under an application id that the {name} depends on",
             "domain metadata": f"wrote a metadata domain that the {name} writes, too"}
    return words.get(rule, f"took the version that the {name} was to be")
