"""What a statement did, as JSON: the answer's rows, or what changed of its table, or that it was refused.

What lives here: :func:`outcome`, and :class:`Recording`, the file with what Delta Spark did.
What it does not know: which engine ran the statement, what may differ (``sql_differences``).

Left out is what no two tables share: ids, sizes in bytes, names of files, physical names of columns.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import deltanb as dn
from deltanb.errors import DeltaError
from tests.peers.delta_spark import PeerError, table
from tests.peers.sql_statements import Case
from tests.peers.sql_tables import make
from tests.peers.test_commands_delta_spark import ENGINES_OWN
from tests.peers.test_commit_info_delta_spark import SPELLED

RECORDED = Path(__file__).with_name("sql_delta_spark.json")
AS_USUAL = {"retentionDurationCheck.enabled": "true"}
"""Settings of Delta Spark's that its tests' session has otherwise."""
QUERIES = ("SELECT", "DESC", "SHOW")
FILE = re.compile(r"part-\d{5}-[^/\s]*?\.parquet")
MASKED = {"id", "sizeInBytes", "engineInfo", "userId", "userName", "job", "notebook", "clusterId"}
"""Columns of DESCRIBE DETAIL and HISTORY whose values are each table's or each engine's."""

OWN = (*ENGINES_OWN, "numFiles", "FileSize", "SizeInBytes")
"""Parts of the names of metrics whose values are each engine's."""

Rows = list[dict[str, Any]]
Run = Callable[[str], pa.Table | Rows | None]
Outcome = dict[str, Any]


def outcome(case: Case, folder: Path, run: Run) -> Outcome:
    """Run a case in an empty folder.

    ``run`` runs one statement, and returns the rows of one that asks. What is refused raises
    :class:`DeltaError` here and :class:`PeerError` there; ``changed`` says that the table has a commit of it
    all the same.
    """
    make(case.folder, folder)
    *first, last = (written(text, folder) for text in case.statements)
    for text in first:
        run(text)
    before = state(folder / case.table)
    try:
        rows = run(last)
    except (DeltaError, PeerError) as error:
        name = getattr(error, "condition", None) or getattr(error, "kind", None)
        return {"refused": name, "changed": state(folder / case.table) != before}
    if last.upper().startswith(QUERIES):
        assert rows is not None
        if isinstance(rows, pa.Table) and last.startswith("SELECT"):
            return {"columns": columns(rows), "rows": in_order(answer(rows.to_pylist(), folder))}
        return {"answer": answer(rows if isinstance(rows, list) else rows.to_pylist(), folder)}
    after = state(folder / case.table)
    if "VACUUM" in last:
        after["files"] = len(list((folder / case.table).glob("*.parquet")))
    changed = {key: after.get(key) for key in {**before, **after} if before.get(key) != after.get(key)}
    return {**changed, "commits": list(commits(folder, case.table, before.get("version", -1)))}


def written(text: str, folder: Path) -> str:
    """A statement with the names of the tables of one folder."""
    for name in "tswu":
        text = text.replace(f"{{{name}}}", table(folder / name))
    return text.replace("{folder}", str(folder))


# -- a table --------------------------------------------------------------------------------------------

def state(path: Path) -> dict[str, Any]:
    """What a table is; of none, nothing."""
    if not dn.DeltaTable.is_delta_table(path):
        return {}
    table = dn.open(path)
    protocol = table.protocol
    result = {
        "version": table.version,
        "rows": in_order(plain(table.to_arrow().to_pylist(), path.parent)),
        "schema": [column(field) for field in without_names(table.schema.to_dict())["fields"]],
        "partitioned by": list(table.partition_columns),
        "clustered by": table.detail()["clusteringColumns"],
        "properties": without_names(table.properties),
        "description": table.metadata.description,
        "protocol": [protocol.min_reader_version, protocol.min_writer_version,
                     sorted(protocol.reader_features or ()), sorted(protocol.writer_features or ())],
    }
    if table.properties.get("delta.enableChangeDataFeed") == "true":
        feed = table.changes(table.version, table.version).to_pylist()
        result["changes"] = in_order(
            plain([{k: v for k, v in row.items() if k != "_commit_timestamp"} for row in feed], path.parent))
    return result


def column(field: dict[str, Any]) -> Any:
    """A field of a schema in short, if it is nothing but a name and a type."""
    if field["nullable"] and not field["metadata"] and isinstance(field["type"], str):
        return f"{field['name']}: {field['type']}"
    return field


def without_names(node: Any) -> Any:
    """A schema, or properties, without names that are made up anew in every table, and times."""
    if isinstance(node, dict):
        return {key: without_names(value) for key, value in node.items()
                if not re.search("physicalName|materializedRow|EnablementTimestamp", key)}
    return [without_names(item) for item in node] if isinstance(node, list) else node


def commits(folder: Path, name: str, after: int) -> Iterator[dict[str, Any]]:
    """What the commits since a version say of themselves.

    Of parameters that each engine spells for itself, and of metrics whose values are each engine's, only that
    they are there.
    """
    for path in sorted((folder / name / "_delta_log").glob("0*.json")):
        if not path.stem.isdigit() or int(path.stem) <= after:
            continue
        lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
        info = next(line["commitInfo"] for line in lines if "commitInfo" in line)
        yield {
            "operation": info["operation"],
            "parameters": {key: f"<{type(value).__name__}>" if key in SPELLED
                           else value if not isinstance(value, str) else parsed(value, folder)
                           for key, value in sorted(info.get("operationParameters", {}).items())},
            "metrics": {key: None if any(word in key for word in OWN) else value
                        for key, value in sorted((info.get("operationMetrics") or {}).items())},
            **{key: info.get(key) for key in ("isolationLevel", "isBlindAppend", "userMetadata")
               if info.get(key) is not None},
            **({"readVersion": info["readVersion"]} if info.get("readVersion", -1) >= 0 else {}),
        }


def parsed(text: str, folder: Path) -> Any:
    """A parameter: the value that it is the JSON of, since the order of keys means nothing."""
    try:
        value = json.loads(text)
    except ValueError:
        return plain(text, folder)
    if isinstance(value, dict) and "minReaderVersion" in value:
        value = {key: sorted(one) if isinstance(one, list) else one for key, one in value.items() if one}
    return {"json": plain(without_names(value), folder)} if isinstance(value, (dict, list)) else text


# -- rows ------------------------------------------------------------------------------------------------

def columns(rows: pa.Table) -> list[str]:
    """Names and types; how long a text or a list may be, and what an item is called, is an engine's own."""
    return [f"{field.name}: {re.sub(r'list<.+?: ', 'list<', str(field.type).replace('large_', ''))}"
            for field in rows.schema]


def answer(rows: Rows, folder: Path) -> Rows:
    """The rows of an answer, without what differs from table to table."""
    result = []
    for row in rows:
        hidden = MASKED if {"location", "engineInfo"} & row.keys() else ()
        shown = {key: "…" if key in hidden else plain(value, folder) for key, value in row.items()}
        if isinstance(metrics := row.get("operationMetrics"), (list, dict)):
            shown["operationMetrics"] = {key: "…" if any(word in key for word in OWN) else value
                                         for key, value in sorted(dict(metrics).items())}
        for name in {"operationParameters", "properties"} & row.keys():
            shown[name] = plain(dict(sorted(dict(row[name] or {}).items())), folder)
        result.append(shown)
    return result


def in_order(rows: list[Any]) -> list[Any]:
    return sorted(rows, key=lambda row: json.dumps(row, ensure_ascii=False))


def plain(value: Any, folder: Path) -> Any:
    """A value that JSON has; a type that it lacks is named before the text."""
    match value:
        case dict():
            return {str(key): plain(one, folder) for key, one in value.items()}
        case list() | tuple():
            return [plain(one, folder) for one in value]
        case str():
            return FILE.sub("<file>", re.sub(f"(file:)?{re.escape(str(folder))}", "<folder>", value))
        case None | bool() | int():
            return value
        case float():
            return value if value - value == 0 else f"float {value}"
        case bytes():
            return f"bytes {value.hex()}"
        case dt.datetime() if value.tzinfo is not None:
            return f"timestamp {value.astimezone(dt.timezone.utc).isoformat()}"
    return f"{type(value).__name__} {value}"


# -- the recording -------------------------------------------------------------------------------------

class Recording:
    """Case -> outcome, by a version of Delta Spark; a line of the file for each."""

    def __init__(self) -> None:
        content = json.loads(RECORDED.read_text("utf-8")) if RECORDED.exists() else {}
        self.version: str | None = content.pop("Delta Spark", None)
        self.outcomes: dict[str, Outcome] = content

    def write(self, version: str, names: list[str]) -> None:
        """Write those of some cases in their order, and drop all others."""
        content = {"Delta Spark": version, **{name: self.outcomes[name] for name in names
                                              if name in self.outcomes}}
        lines = [f"{json.dumps(key)}:\n {json.dumps(value, sort_keys=True)}"
                 for key, value in content.items()]
        RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")
