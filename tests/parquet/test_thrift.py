"""Structures are read by tables, and written again with nothing lost."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltanb.parquet.file import raw_footer
from deltanb.parquet.format import FILE_METADATA
from deltanb.parquet.thrift import BINARY, I16, I32, I64, MAX_DEPTH, Structure, unread

ROWS = pa.table({"id": range(1000), "texts": [["a" * n] for n in range(1000)], "number": [1.5, None] * 500})


def of_arrow(path: Path) -> None:
    pq.write_table(ROWS, path, row_group_size=60, write_page_index=True, write_page_checksum=True)


def of_polars(path: Path) -> None:
    frame: Any = polars.from_arrow(ROWS)
    frame.write_parquet(path, row_group_size=100)


def of_duckdb(path: Path) -> None:
    duckdb.from_arrow(ROWS).write_parquet(str(path))


@pytest.mark.parametrize("write", [of_arrow, of_polars, of_duckdb])
def test_a_footer_is_written_as_it_was_read(tmp_path: Path, write: Callable[[Path], None]) -> None:
    path = tmp_path / "one.parquet"
    write(path)
    footer = raw_footer(pa.OSFile(str(path)))
    values, end = FILE_METADATA.read(footer)
    assert end == len(footer) and values["num_rows"] == 1000
    assert FILE_METADATA.write(values) == footer


INNER = Structure(name=(2, BINARY), sizes=(18, [I64]))
OUTER = Structure(small=(1, I16), number=(2, I32), large=(3, I64), inner=(4, INNER), many=(40, [INNER]))


def test_what_was_written_is_read() -> None:
    generator = random.Random(0)

    def number(bits: int) -> int:
        return generator.getrandbits(generator.randrange(1, bits)) * generator.choice([1, -1])

    def inner() -> dict[Any, Any]:
        return {"name": bytes(generator.randrange(300)), unread(3, 1): b"", unread(9, BINARY): b"\x02ab",
                "sizes": [number(63) for _ in range(generator.randrange(40))]}

    for _ in range(200):
        values = {"small": number(15), "number": number(31), "large": number(63), "inner": inner(),
                  "many": [inner() for _ in range(generator.randrange(20))]}
        data = OUTER.write(values)
        assert OUTER.read(data) == (values, len(data))
        wider = Structure(number=(2, I32)).read(data)[0]
        assert wider["number"] == values["number"] and Structure(number=(2, I32)).write(wider) == data


@pytest.mark.parametrize(("data", "match"), [
    (b"\x15\x02\x05\x02\x02\x00", "twice"), (b"\x1c" * (MAX_DEPTH + 3), "nested too deeply"),
    (b"\x1d\x00", "type 13"), (b"\x16" + b"\xff" * 11, "too long"), (b"\x49\x15\x00", "something else"),
    (b"\x19\xf5\xff\xff\xff\x0f", "beyond its end")])
def test_what_is_no_structure_is_refused(data: bytes, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        Structure(number=(1, I32), large=(1, I64), many=(4, [INNER])).read(data)
