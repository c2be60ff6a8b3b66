"""Conflicts to look at, one of every kind; made by hand, so that only their look is tested."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from deltanb import errors
from deltanb.actions import (
    AddFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    SetTransaction,
)
from deltanb.transaction.conflict_rules import RULES
from deltanb.transaction.conflicts import Check, Conflict, FieldChange
from deltanb.transaction.operations import Operation

TIME = 1_772_442_862_000  # 2026-03-02 09:14:22 UTC

def add(name: str, day: str = "2026-03-02", size: int = 4100, rows: int = 120) -> AddFile:
    return AddFile(f"day={day}/{name}.parquet", {"day": day}, size, TIME,
                   stats=f'{{"numRecords":{rows}}}')


def remove(name: str, day: str = "2026-03-02") -> RemoveFile:
    return RemoveFile(f"day={day}/{name}.parquet", TIME, partition_values={"day": day}, size=4100)


def checks(failed: str, note: str = "") -> tuple[Check, ...]:
    """The checklist as it stands after the rule of this name has found something."""
    at = [rule.name for rule in RULES].index(failed)
    lines = []
    for position, rule in enumerate(RULES):
        if position == at:
            lines.append(Check(rule.name, rule.failed, "failed", note))
        elif position > at:
            lines.append(Check(rule.name, rule.passed, "not reached"))
        elif rule.name == "domain metadata":
            lines.append(Check(rule.name, rule.passed, "does not apply",
                               "the table has no domain metadata"))
        else:
            lines.append(Check(rule.name, rule.passed, "passed"))
    return tuple(lines)


def append() -> Conflict:
    """The one people meet most: a DELETE against a MERGE in the same day."""
    met = (add("part-0131"), add("part-0132"))
    return Conflict(
        rule="append",
        kind="CONCURRENT_APPEND",
        exception=errors.ConcurrentAppendException,
        read_version=17,
        version=18,
        isolation="Serializable",
        operation=Operation("DELETE"),
        error_class="DELTA_CONCURRENT_APPEND.WITH_PARTITION_HINT",
        message="Transaction conflict detected.",
        commit_info=CommitInfo(operation="DELETE"),
        predicates=("day = '2026-03-02' AND qty < 0",),
        predicate="day = '2026-03-02'",
        winner=CommitInfo(operation="MERGE", operation_parameters={"predicate": '["t.id = s.id"]'},
                          timestamp=TIME, read_version=16, user_name="etl-b",
                          isolation_level="Serializable", is_blind_append=False),
        winner_actions=(*met, add("part-0133", "2026-03-03")),
        your_actions=(remove("part-0009"), add("part-0010")),
        read_files=("day=2026-03-02/part-0007.parquet", "day=2026-03-02/part-0009.parquet"),
        files=met,
        partition="[day=2026-03-02]",
        checks=checks("append", "2 files"),
        changes=(),
        advice=("Run it again: a new transaction reads version 18 and sees the 2 files.",
                "Under `WriteSerializable` this passes only if version 18 is a blind append; "
                "it is a MERGE."),
        wanted_version=18,
        table="orders",
    )


def _like_append(kind: str, **changes: Any) -> Conflict:
    exception = getattr(errors, f"{kind}Exception")
    empty: dict[str, Any] = {"predicate": None, "partition": None, "files": (), "changes": ()}
    return replace(append(), exception=exception, kind=exception.kind, **{**empty, **changes})


def whole_table() -> Conflict:
    return _like_append("ConcurrentAppend", predicates=("TRUE",), files=(add("part-0131"),))


def unpartitioned() -> Conflict:
    met = (AddFile("part-0131.parquet", {}, 4100, TIME),)
    return _like_append("ConcurrentAppend", predicates=("qty < 0",), predicate="qty < 0",
                        files=met, winner_actions=met, checks=checks("append", "1 file"),
                        your_actions=(RemoveFile("part-0009.parquet"),), read_files=())


def delete_read() -> Conflict:
    gone = (remove("part-0007"),)
    return _like_append("ConcurrentDeleteRead", rule="delete-read", files=gone,
                        winner_actions=(*gone, add("part-0140", "2026-03-04")),
                        checks=checks("delete / read", "1 file"))


def delete_delete() -> Conflict:
    gone = (remove("part-0009"),)
    return _like_append("ConcurrentDeleteDelete", rule="delete-delete", files=gone,
                        winner_actions=gone, checks=checks("delete / delete", "1 file"))


def transaction() -> Conflict:
    met = SetTransaction("stream-1", 8, TIME)
    return _like_append("ConcurrentTransaction", rule="application id",
                        winner_actions=(met, SetTransaction("other", 1), add("part-0131")),
                        checks=checks("application id", "application id stream-1"))


def domain() -> Conflict:
    theirs = DomainMetadata("app.lineage", '{"step":3}')
    change = FieldChange("domain app.lineage", '{"step":2}', theirs.configuration)
    return _like_append("ConcurrentTransaction", rule="domain metadata", changes=(change,),
                        winner_actions=(theirs,),
                        checks=checks("domain metadata", "domain app.lineage in both"))


def metadata() -> Conflict:
    changes = (
        FieldChange("delta.appendOnly", None, "true", False),
        FieldChange("delta.enableDeletionVectors", "false", "true", True),
    )
    winner = Metadata("11111111-1111-1111-1111-111111111111", '{"type":"struct","fields":[]}')
    return _like_append("MetadataChanged", rule="metadata", changes=changes,
                        winner_actions=(winner,),
                        checks=checks("metadata", "delta.appendOnly changed"),
                        winner=CommitInfo(operation="SET TBLPROPERTIES", timestamp=TIME))


def both_metadata() -> Conflict:
    """Each change could be adopted alone, but your transaction changes the metadata too."""
    mine = Metadata("11111111-1111-1111-1111-111111111111", '{"type":"struct","fields":[]}')
    changes = (FieldChange("delta.enableDeletionVectors", None, "true", True),)
    return replace(metadata(), your_actions=(mine,), changes=changes,
                   operation=Operation("ADD COLUMNS"),
                   checks=checks("metadata", "both transactions change the metadata"))


def protocol() -> Conflict:
    changes = (FieldChange("feature invariants", "supported", None),)
    return _like_append("ProtocolChanged", rule="protocol", changes=changes,
                        winner_actions=(Protocol(1, 7, None, ("appendOnly",)),),
                        checks=checks("protocol", "the winner drops invariants"),
                        winner=CommitInfo())


def write() -> Conflict:
    return _like_append("ConcurrentWrite", rule="write", operation=Operation("RESTORE"),
                        checks=(Check("version taken", "version 18 was free", "failed"),),
                        read_files=(), predicates=(), winner_actions=())


def large(n: int = 400) -> Conflict:
    """More files than are shown, with names that are long."""
    met = tuple(add(f"part-{i:05d}-4b5c6d7e-8f90-4a1b-9c2d-3e4f5a6b7c8d-c000") for i in range(n))
    read = tuple(f"day=2026-03-02/part-{i:05d}.parquet" for i in range(n))
    return replace(append(), files=met, winner_actions=met, read_files=read,
                   your_actions=())


KINDS = {
    "append": append, "append_whole_table": whole_table, "append_unpartitioned": unpartitioned,
    "delete_read": delete_read, "delete_delete": delete_delete, "transaction": transaction,
    "domain": domain, "metadata": metadata, "metadata_both": both_metadata,
    "protocol": protocol, "write": write,
}  # fmt: skip
