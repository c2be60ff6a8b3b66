"""The options of one write for its data files: their size and compression.

What lives here: :class:`FileOptions`, and the equivalent options of Delta's writers.
What it does not know: who writes the files, and how.

>>> FileOptions.of({"maxRecordsPerFile": "1000", "compression": "GZIP"})
FileOptions(target_file_size=None, max_records_per_file=1000, compression='gzip')
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from deltanb.errors import InvalidArgument, require
from deltanb.log import parquet_options
from deltanb.options import options
from deltanb.schema import properties
from deltanb.text.formatting import did_you_mean

__all__ = ["FileOptions"]


@dataclass(frozen=True)
class FileOptions:
    """The options of one write; None leaves the choice to the table or the options of this library.

    Args:
        target_file_size: the size of a file in bytes, by default ``delta.targetFileSize`` or
            ``options.target_file_size``.
        max_records_per_file: the most rows of a file; 0 for any number, as in Spark.
        compression: the codec, by default ``delta.parquet.compression.codec``.

    Raises:
        InvalidArgument: a value that is not allowed.
    """

    target_file_size: int | None = None
    max_records_per_file: int | None = None
    compression: str | None = None

    def __post_init__(self) -> None:
        for name, unit, least in (("target_file_size", "bytes", 1), ("max_records_per_file", "rows", 0)):
            value = getattr(self, name)
            if value is not None:
                require(value, int, name, f"{unit} (an integer of at least {least})")
                if value < least:
                    raise InvalidArgument(f"{name}={value}: it is {unit}, an integer of at least {least}")
        if self.compression is not None:
            require(self.compression, str, "compression", "the name of a codec")
            try:
                object.__setattr__(self, "compression", properties.codec(self.compression))
            except ValueError as error:
                raise InvalidArgument(f"compression={self.compression!r}: {error}") from None

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> FileOptions:
        """Options by the names of Delta's writers, or by ours; numbers may be texts.

        Raises:
            InvalidArgument: an unknown option, or a wrong value.
        """
        require(options, Mapping, "write_options", "a dict of options")
        names = {name.replace("_", ""): name for name in (field.name for field in fields(cls))}
        values: dict[str, Any] = {}
        for key, value in options.items():
            name = names.get(str(key).replace("_", "").lower())
            if name is None:
                spelled = ("maxRecordsPerFile", "compression", "targetFileSize")
                raise InvalidArgument(
                    f"write_options have no {key!r} for the files of a transaction; "
                    f"{did_you_mean(str(key), spelled, 'options')[0]}. What concerns a whole write is an "
                    "argument of table.append and table.overwrite")
            is_number = name != "compression" and isinstance(value, str) and value.strip().isdigit()
            values[name] = int(value) if is_number else value
        return cls(**values)

    def size(self, configuration: Mapping[str, str]) -> int:
        """The file size in bytes for a table with these properties."""
        size = self.target_file_size
        if size is None:
            size = properties.get(configuration, "delta.targetFileSize")
        return int(options.target_file_size if size is None else size)

    def form(self, configuration: Mapping[str, str]) -> parquet_options.ParquetOptions:
        """How the Parquet files of a table with these properties are written."""
        return parquet_options.of(configuration, codec=self.compression)
