"""The structures of Parquet files that this library looks into (parquet.thrift).

What lives here: their tables, and a footer's way between bytes and values.
What it does not know: what follows from a footer; the fields that nobody asks for.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from deltanb.parquet.thrift import BINARY, BOOLEAN, I16, I32, I64, STRUCT, Structure, Values, unread

MAGIC = b"PAR1"
MAX_FOOTERS = 8
"""Footers that are kept as they were read: a table that is opened again has the same checkpoint."""

STATISTICS = Structure(
    max=(1, BINARY), min=(2, BINARY), null_count=(3, I64), max_value=(5, BINARY), min_value=(6, BINARY))
SIZE_STATISTICS = Structure(
    unencoded_byte_array_data_bytes=(1, I64), repetition_level_histogram=(2, [I64]),
    definition_level_histogram=(3, [I64]))
COLUMN_METADATA = Structure(
    type=(1, I32), codec=(4, I32), num_values=(5, I64), total_uncompressed_size=(6, I64),
    total_compressed_size=(7, I64), data_page_offset=(9, I64), dictionary_page_offset=(11, I64),
    statistics=(12, STATISTICS), size_statistics=(16, SIZE_STATISTICS))
COLUMN_CHUNK = Structure(
    file_offset=(2, I64), meta_data=(3, COLUMN_METADATA), offset_index_offset=(4, I64),
    offset_index_length=(5, I32), column_index_offset=(6, I64), column_index_length=(7, I32))
ROW_GROUP = Structure(
    columns=(1, [COLUMN_CHUNK]), total_byte_size=(2, I64), num_rows=(3, I64), file_offset=(5, I64),
    total_compressed_size=(6, I64), ordinal=(7, I16))
FILE_METADATA = Structure(num_rows=(3, I64), row_groups=(4, [ROW_GROUP]))

IS_ENCRYPTED = frozenset({unread(8, STRUCT), unread(9, BINARY)})
"""A column chunk with one of these fields."""

DATA_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = 0, 2, 3  # PageType
DATA_PAGE_HEADER = Structure(num_values=(1, I32), statistics=(5, STATISTICS))
DATA_PAGE_HEADER_V2 = Structure(num_values=(1, I32), num_rows=(3, I32), statistics=(8, STATISTICS))
PAGE_HEADER = Structure(
    type=(1, I32), compressed_page_size=(3, I32), crc=(4, I32), data_page_header=(5, DATA_PAGE_HEADER),
    data_page_header_v2=(8, DATA_PAGE_HEADER_V2))

PAGE_LOCATION = Structure(offset=(1, I64), compressed_page_size=(2, I32), first_row_index=(3, I64))
OFFSET_INDEX = Structure(page_locations=(1, [PAGE_LOCATION]))
COLUMN_INDEX = Structure(
    null_pages=(1, [BOOLEAN]), min_values=(2, [BINARY]), max_values=(3, [BINARY]), null_counts=(5, [I64]))


@lru_cache(MAX_FOOTERS)
def read_metadata(footer: bytes) -> Values:
    """What is in the bytes of a footer; nobody changes it.

    Raises:
        ValueError: they are not a footer.
    """
    try:
        return FILE_METADATA.read(footer)[0]
    except IndexError:
        raise ValueError("its footer ends early") from None
    except ValueError as error:
        raise ValueError(f"its footer is damaged: {error}") from None


def ending(footer: bytes) -> bytes:
    """A footer as it ends a file."""
    return footer + struct.pack("<I", len(footer)) + MAGIC
