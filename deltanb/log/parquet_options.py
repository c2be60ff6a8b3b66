"""How a table's Parquet files are to be written: the codec, the format of their pages, their names.

What lives here: the meaning of ``delta.parquet.compression.codec`` and ``delta.parquet.format.version``
(PROTOCOL.md, "Table Properties") for data files and checkpoints, as options of both writers, pyarrow and
Spark.
What it does not know: how a file is written, and what is in it.

>>> of({"delta.parquet.compression.codec": "GZIP"}).file_name("part-00000-c000")
'part-00000-c000.gz.parquet'
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deltanb.schema import properties

CODEC = "delta.parquet.compression.codec"
FORMAT_VERSION = "delta.parquet.format.version"

DEFAULT_CODEC = "zstd"
"""What PROTOCOL.md recommends where the property is not set."""

_SUFFIXES = {"none": "", "snappy": ".snappy", "gzip": ".gz", "lz4_raw": ".lz4raw", "zstd": ".zstd"}
"""What Spark puts into the name of a file, by codec."""


@dataclass(frozen=True)
class ParquetOptions:
    """The options of one table.

    ``codec`` is one of ``none``, ``snappy``, ``gzip``, ``lz4_raw`` and ``zstd``; ``page_version`` is 1 or 2.
    """

    codec: str = DEFAULT_CODEC
    page_version: int = 1

    @property
    def for_arrow(self) -> dict[str, Any]:
        """Arguments of ``pyarrow.parquet.ParquetWriter``."""
        # pyarrow's "lz4" has always been the block format that Parquet calls LZ4_RAW.
        codec = "lz4" if self.codec == "lz4_raw" else self.codec
        # With checksums a reader notices a damaged page, which may well decode to other values.
        return {"compression": codec, "data_page_version": f"{self.page_version}.0",
                "write_page_checksum": True}

    @property
    def for_spark(self) -> dict[str, str]:
        """Options of a ``DataFrameWriter``, which override the session's."""
        return {"compression": self.codec, "parquet.writer.version": f"v{self.page_version}"}

    def file_name(self, stem: str) -> str:
        """The name of a data file, which includes its codec as Spark's names do."""
        return f"{stem}{_SUFFIXES[self.codec]}.parquet"


def of(
    configuration: Mapping[str, str], default: str = DEFAULT_CODEC, codec: str | None = None
) -> ParquetOptions:
    """The options in a table's properties; ``default`` is the codec if they have none, ``codec`` overrides
    them.

    Raises:
        InvalidArgument: a codec or a version that cannot be written.
    """
    version = properties.get(configuration, FORMAT_VERSION)
    codec = codec or properties.get(configuration, CODEC) or default
    return ParquetOptions(codec, 1 if version == "1.0.0" else 2)
