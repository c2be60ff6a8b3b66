"""What users write, with types: mypy --strict and pyright have nothing to say of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import deltanb as dn

Rows = Mapping[str, Sequence[int]]


def appended(path: str, rows: Rows) -> int:
    """The version that an append made."""
    table: dn.DeltaTable = dn.open(path)
    table.append(rows)
    return table.version


def deleted(path: str, where: str) -> str:
    """How a delete ended."""
    table = dn.open(path)
    try:
        with table.transaction() as mine:
            mine.delete(where)
    except dn.errors.ConcurrentAppendException as error:
        return str(error)
    except dn.errors.DeltaError as error:
        return f"another reason: {error}"
    return f"version {table.version}"


def counted(path: str, version: int | None = None) -> dict[str, int]:
    """Rows, files and commits."""
    table = dn.open(path, version=version)
    rows = table.to_arrow(columns=["id"], where="id > 1")
    return {"rows": int(rows.num_rows), "files": table.snapshot.num_files, "commits": len(table.history())}


def merged(path: str, rows: Rows) -> None:
    """An upsert."""
    merge = dn.open(path).merge(rows, "t.id = s.id", target_alias="t", source_alias="s")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()


def settings() -> None:
    """Options, as a call and as a block."""
    with dn.set_options(durability="none"):
        pass
