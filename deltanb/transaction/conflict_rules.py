"""The conflict rules: one ordered table.

Rule 1: everything that can end a commit because of a winner is in :data:`RULES`, in the order in which
the protocol's reference implementation checks it. The checker, the checklist of the conflict view and
the documentation read this table.
Rule 2: a rule looks at two values, the current transaction and one winner. It does no I/O.
Rule 3: a rule that finds nothing may rebase: return the transaction as if it had read the winner.

Each rule says when it applies (or why it does not), what it finds, the exception that follows, and how
it rebases. Facts: PROTOCOL.md and the behaviour of Delta Spark 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

from deltanb.actions import AddFile, DomainMetadata, Protocol, RemoveFile
from deltanb.errors import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    DeltaConcurrentModificationException,
    DeltaError,
    FeatureDropConflict,
    MetadataChangedException,
    ProtocolChangedException,
)
from deltanb.schema import protocol as features
from deltanb.transaction import metadata_rules, rebase
from deltanb.transaction.conflicts import Check, Conflict, FieldChange, Finding, build_conflict
from deltanb.transaction.current import (
    SNAPSHOT_ISOLATION,
    WRITE_SERIALIZABLE,
    CurrentTransaction,
)
from deltanb.transaction.row_levels import NOTHING_SEEN, ROW_LEVELS
from deltanb.transaction.steps import Winner

REMOVED_BY_REPLACE = frozenset({"delta.clustering"})
"""Domains of a table's definition: whoever replaces that ends them, even if a winner began them."""


@dataclass(frozen=True)
class Rule:
    """One conflict rule; see the module's rules for what its functions may do."""

    name: str
    passed: str
    failed: str
    exception: type[DeltaConcurrentModificationException] | None
    finds: Callable[[CurrentTransaction, Winner], Finding | None]
    skips: Callable[[CurrentTransaction, Winner], str] = lambda current, winner: ""
    rebases: Callable[[CurrentTransaction, Winner], CurrentTransaction] = (
        lambda current, winner: current)
    looks_at_files: bool = False
    """Whether a closer look at the winner's files may take back what it finds."""

    @cached_property
    def has_passed(self) -> Check:
        """Its line of the checklist where it found nothing."""
        return Check(self.name, self.passed, "passed")


@lru_cache(maxsize=256)
def _does_not_apply(rule: Rule, reason: str) -> Check:
    return Check(rule.name, rule.passed, "does not apply", reason)


@dataclass(frozen=True)
class Verdict:
    """The result of the rules for one winner: a conflict, or the rebased transaction."""

    checks: tuple[Check, ...]
    conflict: Conflict | None
    error: DeltaError | None
    transaction: CurrentTransaction

    @property
    def may_pass_closer(self) -> bool:
        """Whether a closer look at the winner's files may let the transaction pass."""
        return (self.conflict is not None and self.conflict.rule in LOOK_AT_FILES
                and bool(ROW_LEVELS[self.transaction.row_level]))


def check(
    current: CurrentTransaction, winner: Winner, rules: Sequence[Rule] | None = None
) -> Verdict:
    """Check a winner by the rules, in order, until one fails.

    ``rules`` are :data:`RULES` but for questions of the kind "what if this rule did not exist".
    """
    rules = RULES if rules is None else rules
    checks: list[Check] = []
    for position, rule in enumerate(rules):
        reason = rule.skips(current, winner)
        if reason:
            checks.append(_does_not_apply(rule, reason))
        else:
            try:
                finding = rule.finds(current, winner)
            except DeltaError as error:
                checks.append(Check(rule.name, rule.failed, "failed", error.message))
                checks.extend(_not_reached(rules, position))
                return Verdict(tuple(checks), None, error, current)
            if finding is not None:
                finding = _with_doubts(finding, winner)
                checks.append(Check(rule.name, rule.failed, "failed", finding.note))
                checks.extend(_not_reached(rules, position))
                assert rule.exception is not None
                conflict = build_conflict(current, winner, rule.name, rule.exception, finding,
                                          checks)
                return Verdict(tuple(checks), conflict, conflict.error(), current)
            is_plain = winner.seen is NOTHING_SEEN or not rule.looks_at_files
            checks.append(rule.has_passed if is_plain else _passed_closer(rule, current, winner))
        try:
            current = rule.rebases(current, winner)
        except DeltaError as error:
            checks[-1] = Check(rule.name, rule.failed, "failed", error.message)
            checks.extend(_not_reached(rules, position))
            return Verdict(tuple(checks), None, error, current)
    return Verdict(tuple(checks), None, None, current)


def _not_reached(rules: Sequence[Rule], position: int) -> Iterator[Check]:
    for rule in rules[position + 1:]:
        yield Check(rule.name, rule.passed, "not reached")


def _passed_closer(rule: Rule, current: CurrentTransaction, winner: Winner) -> Check:
    """The line of a rule that found nothing; it says so if only a closer look let it pass."""
    coarse = rule.finds(current, winner.unseen)
    if coarse is None:
        return rule.has_passed
    seen = {**winner.seen.added, **winner.seen.removed}
    looks = sorted({seen[file.path] for file in coarse.files if file.path in seen})
    return Check(rule.name, rule.passed, "passed",
                 f"{AT_ROW_LEVEL}: the rows differ ({coarse.note}, by {' and '.join(looks)})")


def _with_doubts(finding: Finding, winner: Winner) -> Finding:
    """What was found, with why a closer look could not tell whether rows meet."""
    if not winner.seen.doubts:
        return finding
    doubts = "; ".join(winner.seen.doubts)
    return replace(finding, advice=(*finding.advice, f"Whether rows meet is not known: {doubts}."))


AT_ROW_LEVEL = "at row level this passes"
RETRY = "Run it again: a new transaction reads version {version} and sees what it did."


def _retry(winner: Winner) -> str:
    return RETRY.format(version=winner.version)


# ---------------------------------------------------------------------------- protocol


def _protocol_finds(current: CurrentTransaction, winner: Winner) -> Finding | None:
    new = winner.protocol
    if new is None:
        _revalidate_drop(current, winner)
        return None
    features.check_by_path(new, current.table, current.read_protocol)
    features.check_writable(new, winner.metadata or current.metadata, current.table)
    dropped = features.dropped_features(current.read_protocol, new)
    if any(isinstance(a, Protocol) for a in current.actions):
        note = "both transactions change the protocol"
    elif dropped:
        note = f"the winner drops {', '.join(dropped)}"
    else:
        return None
    return Finding(
        changes=_protocol_changes(current.read_protocol, new), note=note,
        advice=(_retry(winner),) if winner.version else (
            "Create the table first, once; then all writers can append to it.", _retry(winner)),
    )


def _revalidate_drop(current: CurrentTransaction, winner: Winner) -> None:
    """A transaction that drops features must not leave a winner's use of them in the table."""
    if current.protocol is current.read_protocol:
        return
    for feature in features.dropped_features(current.read_protocol, current.protocol):
        uses = _TRACES.get(feature)
        if uses is not None and uses(winner):
            raise FeatureDropConflict(
                f"table {current.table}: feature {feature} cannot be dropped, version "
                f"{winner.version} ({winner.operation}) uses it. Remove its traces and drop it again",
                feature=feature, version=winner.version,
            )


_TRACES: dict[str, Callable[[Winner], bool]] = {
    "deletionVectors": lambda w: any(a.deletion_vector is not None for a in w.adds),
    "inCommitTimestamp": lambda w: w.metadata is not None,
    "domainMetadata": lambda w: any(not d.removed for d in w.domains.values()),
    "clustering": lambda w: "delta.clustering" in w.domains,
    "columnMapping": lambda w: w.metadata is not None,
    "typeWidening": lambda w: w.metadata is not None,
    "checkConstraints": lambda w: w.metadata is not None,
}
"""feature -> whether a commit left something that dropping the feature would have to remove."""


def _features(protocol: Protocol) -> frozenset[str]:
    return frozenset(features.features_of(protocol))


def _protocol_changes(old: Protocol, new: Protocol) -> tuple[FieldChange, ...]:
    changes = [FieldChange(name, getattr(old, attribute), getattr(new, attribute))
               for name, attribute in (("minReaderVersion", "min_reader_version"),
                                       ("minWriterVersion", "min_writer_version"))
               if getattr(old, attribute) != getattr(new, attribute)]
    added, dropped = _features(new) - _features(old), _features(old) - _features(new)
    changes += [FieldChange(f"feature {name}", None, "supported", True) for name in sorted(added)]
    changes += [FieldChange(f"feature {name}", "supported", None) for name in sorted(dropped)]
    return tuple(changes)


def _protocol_rebases(current: CurrentTransaction, winner: Winner) -> CurrentTransaction:
    if winner.protocol is None:
        return rebase.checkpoint_protection(current, winner)
    return current.replace(protocol=winner.protocol)


# ---------------------------------------------------------------------------- metadata


def _metadata_finds(current: CurrentTransaction, winner: Winner) -> Finding | None:
    new = winner.metadata
    if new is None:
        return None
    changes = metadata_rules.changes(current, winner)
    if current.metadata_changed:
        return Finding(changes=changes, note="both transactions change the metadata",
                       advice=(_retry(winner),))
    if winner.is_identity_update or all(c.allowed for c in changes):
        return None
    blamed = {word: [c.field for c in changes if not c.allowed and c.renamed is renamed][:3]
              for word, renamed in (("changed", False), ("renamed", True))}
    note = ", ".join(f"{', '.join(names)} {word}" for word, names in blamed.items() if names)
    return Finding(
        changes=changes, note=note,
        advice=(_retry(winner), "Change schema and properties while no long transaction is open."),
    )


def _metadata_rebases(current: CurrentTransaction, winner: Winner) -> CurrentTransaction:
    return metadata_rules.adopt(current, winner)


# ---------------------------------------------------------------------------- domains, app ids


def _domain_skips(current: CurrentTransaction, winner: Winner) -> str:
    if not features.supports(current.protocol, "domainMetadata"):
        return "the table has no domain metadata"
    return ""


def _domain_finds(current: CurrentTransaction, winner: Winner) -> Finding | None:
    for action in current.actions:
        if (isinstance(action, DomainMetadata) and action.domain in winner.domains
                and action.domain != rebase.ROW_TRACKING_DOMAIN):
            theirs = winner.domains[action.domain]
            return Finding(
                domain=action.domain, note=f"domain {action.domain} in both",
                changes=(FieldChange(f"domain {action.domain}", action.configuration,
                                     None if theirs.removed else theirs.configuration),),
                advice=(_retry(winner),),
            )
    return None


def _domain_rebases(current: CurrentTransaction, winner: Winner) -> CurrentTransaction:
    if not current.operation.replaces_definition:
        return current
    ours = {a.domain for a in current.actions if isinstance(a, DomainMetadata)}
    ended = [DomainMetadata(d.domain, d.configuration, removed=True)
             for d in winner.domains.values()
             if not d.removed and d.domain in REMOVED_BY_REPLACE and d.domain not in ours]
    return current.with_actions([*current.actions, *ended])


def _app_id_finds(current: CurrentTransaction, winner: Winner) -> Finding | None:
    shared = sorted(current.reads.app_ids & winner.app_ids) if current.reads.app_ids else ()
    if not shared:
        return None
    return Finding(
        note=f"application id {shared[0]}",
        advice=(
            f"Look whether another run writes as application {shared[0]!r}; if it wrote this batch, "
            "there is nothing left to do.", _retry(winner)),
    )


# ---------------------------------------------------------------------------- files


def _append_skips(current: CurrentTransaction, winner: Winner) -> str:
    if current.isolation == SNAPSHOT_ISOLATION:
        return "nothing changes but the layout: snapshot isolation"
    if rebase.is_backfill_pair(current, winner):
        return "row-tracking backfill adds no rows"
    if current.is_blind_append:
        return "you read nothing: a blind append"
    if current.reads.elsewhere and not current.reads.depends_on_files and not any(
            isinstance(a, RemoveFile) for a in current.actions):
        return "you read nothing of this table"
    if (current.isolation == WRITE_SERIALIZABLE and winner.is_blind_append
            and not current.metadata_changed):
        return "WriteSerializable lets a blind append pass"
    return ""


def _append_rebases(current: CurrentTransaction, winner: Winner) -> CurrentTransaction:
    if current.isolation != WRITE_SERIALIZABLE or current.is_blind_append or not winner.is_blind_append:
        return current
    return current.replace(appended=(*current.appended, *winner.adds))


def _append_finds(current: CurrentTransaction, winner: Winner) -> Finding | None:
    adds = winner.adds
    if winner.seen is not NOTHING_SEEN:
        adds = tuple(file for file in adds if file.path not in winner.seen.added)
    if not adds:
        return None
    if current.reads.whole_table or not current.partition_columns:
        text = current.reads.scans[0].text if current.reads.scans else None
        return Finding(files=adds, predicate=text, partition=_hint(current, adds[0]), note=_files(adds),
                       advice=_append_advice(current, winner))
    scan, met = current.reads.first_match(adds, current.schema, current.partition_columns)
    if scan is None:
        return None
    return Finding(files=tuple(met), predicate=scan.text, partition=_hint(current, met[0]),
                   note=_files(met), advice=_append_advice(current, winner))


def _append_advice(current: CurrentTransaction, winner: Winner) -> tuple[str, ...]:
    advice = [_retry(winner)]
    if current.isolation == WRITE_SERIALIZABLE:
        pass
    elif winner.is_blind_append:
        advice.append("Or use `WriteSerializable`: it lets this pass, because version "
                      f"{winner.version} is a blind append.")
    else:
        advice.append("`WriteSerializable` would not help: it lets only blind appends pass, and version "
                      f"{winner.version} is not one (its operation is {winner.operation}).")
    if ROW_LEVELS[current.row_level] & {"statistics", "values"}:
        return tuple(advice)
    if not current.partition_columns:
        advice.append("The table has no partitions, so any new file meets any read. Partition it by a "
                      "column that separates your writers, and they will not meet.")
    elif any(s.partition_text == "TRUE" for s in current.reads.scans):
        columns = ", ".join(current.partition_columns)
        advice.append(f"Name the partition in your predicate ({columns} = …): only partition columns "
                      "count, a condition on other columns is judged as everything.")
    return tuple(advice)


def _delete_read_finds(current: CurrentTransaction, winner: Winner) -> Finding | None:
    removes = winner.removes
    if winner.seen is not NOTHING_SEEN:
        removes = tuple(file for file in removes if file.path not in winner.seen.removed)
    if not removes:
        return None
    read = current.reads.read_among(r.path for r in removes)
    met = tuple(r for r in removes if r.path in read)
    advice = (_retry(winner), "Narrow your predicate so that it reads fewer files.")
    if met:
        values = current.reads.partition_values_of(met[0].path)
        return Finding(files=met, partition=_hint_of(current, values), note=_files(met),
                       predicate=_scan_that_read(current, met[0]), advice=advice)
    if current.reads.whole_table:
        return Finding(files=removes, predicate="TRUE", note="you read the whole table",
                       advice=advice)
    return None


def _scan_that_read(current: CurrentTransaction, removed: RemoveFile) -> str | None:
    if removed.partition_values is None:
        return current.reads.scans[0].text if current.reads.scans else None
    probe = AddFile(path=removed.path, partition_values=removed.partition_values)
    scan, _ = current.reads.first_match([probe], current.schema, current.partition_columns)
    return scan.text if scan is not None else None


def _delete_delete_finds(current: CurrentTransaction, winner: Winner) -> Finding | None:
    if not winner.removes:
        return None
    ours = {a.path: a for a in current.actions if isinstance(a, RemoveFile)}
    met = tuple(r for r in winner.removes if r.path in ours and r.path not in winner.seen.removed)
    if not met:
        return None
    return Finding(
        files=met, partition=_hint_of(current, ours[met[0].path].partition_values),
        note=_files(met),
        advice=(_retry(winner), f"If {winner.operation} already did what you wanted, nothing is "
                                "left to do."),
    )


def _files(files: Sequence[object]) -> str:
    return f"{len(files)} file{'' if len(files) == 1 else 's'}"


def _hint(current: CurrentTransaction, file: AddFile) -> str | None:
    return _hint_of(current, file.partition_values)


def _hint_of(current: CurrentTransaction, values: dict[str, str | None] | None) -> str | None:
    """``[a=1, b=2]``, or None on an unpartitioned table or without values."""
    if not current.partition_columns or not values:
        return None
    shown = []
    for column in current.partition_columns:
        field = current.schema.get(column)
        physical = field.physical_name if field else column
        value = values.get(physical, "null")
        shown.append(f"{column}={'null' if value is None else value}")
    return f"[{', '.join(shown)}]"


# ---------------------------------------------------------------------------- the table


def _nothing(current: CurrentTransaction, winner: Winner) -> Finding | None:
    return None


RULES: tuple[Rule, ...] = (
    Rule("protocol", "protocol unchanged, or adopted", "the protocol was changed",
         ProtocolChangedException, _protocol_finds, rebases=_protocol_rebases),
    Rule("metadata", "metadata unchanged, or adopted", "the metadata was changed",
         MetadataChangedException, _metadata_finds, rebases=_metadata_rebases),
    Rule("domain metadata", "no metadata domain in both", "a metadata domain was written by both",
         ConcurrentTransactionException, _domain_finds, skips=_domain_skips,
         rebases=_domain_rebases),
    Rule("application id", "no application id reused", "an application id you read was written",
         ConcurrentTransactionException, _app_id_finds),
    Rule("row tracking", "row ids do not overlap", "row ids were filled in and removed at the same time",
         None, _nothing, skips=rebase.row_tracking_skips, rebases=rebase.row_tracking),
    Rule("append", "no file added where you read", "files were added where you read",
         ConcurrentAppendException, _append_finds, skips=_append_skips, rebases=_append_rebases,
         looks_at_files=True),
    Rule("delete / read", "no file you read was removed", "files you read were removed",
         ConcurrentDeleteReadException, _delete_read_finds, looks_at_files=True),
    Rule("delete / delete", "no file removed twice", "files you remove were removed",
         ConcurrentDeleteDeleteException, _delete_delete_finds, rebases=rebase.rows, looks_at_files=True),
    Rule("timestamp", "in-commit timestamps in order", "never: the later commit gets the later time",
         None, _nothing, skips=rebase.timestamp_skips, rebases=rebase.timestamp),
)
"""The conflict rules in the order in which they are checked."""
LOOK_AT_FILES = frozenset(rule.name for rule in RULES if rule.looks_at_files)
"""Names of the rules whose objections a closer look may take back."""


def as_markdown() -> str:
    """The table as the documentation prints it: one line per rule, in order.

    >>> print(as_markdown().splitlines()[2])
    | 1 | protocol | the protocol was changed | `ProtocolChangedException` |
    """
    lines = ["| | rule | a commit fails when | with |", "|---|---|---|---|"]
    for number, rule in enumerate(RULES, 1):
        error = f"`{rule.exception.__name__}`" if rule.exception else "(rebased)"
        lines.append(f"| {number} | {rule.name} | {rule.failed} | {error} |")
    return "\n".join(lines) + "\n"
