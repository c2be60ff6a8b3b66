"""Deletion vectors: which rows of a data file are gone (PROTOCOL.md, "Deletion Vectors").

What lives here: the three places a vector can be in (inline, a file beside the table, a file
anywhere), its bytes both ways, and every check that tells a damaged vector from a good one. A
vector is a ``pyroaring.BitMap64`` of row positions, counted from zero over the whole Parquet file.
What it does not know: Parquet, snapshots, commits.

Rows that come back from the dead, or go missing, are silent corruption; so a vector is only
believed when its size, its checksum and its cardinality all agree, and anything else is
``InvalidTable``.
"""

from __future__ import annotations

import struct
import uuid
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from pyroaring import BitMap64

from deltanb.actions import AddFile, DeletionVector, decode_path, encode_path
from deltanb.actions.data_files import STORAGE_TYPES
from deltanb.errors import DataFileNotFound, InvalidArgument, InvalidTable, StorageError
from deltanb.options import options, random_id
from deltanb.store.base import read_range
from deltanb.store.new_files import created
from deltanb.store.paths import place_of
from deltanb.text.damage import reading, what_is_wrong

if TYPE_CHECKING:
    from deltanb.store.base import LogStore

__all__ = [
    "decode", "encode", "inline", "load", "relative_path", "vector_path",
    "write_file", "z85_decode", "z85_encode",
]

MAGIC = 1681511377  # of the one format that is written: portable roaring, little endian
FILE_VERSION = 1  # first byte of a deletion vector file
_UUID_CHARACTERS = 20  # a 16-byte UUID in Z85: 4 bytes to 5 characters
_HEADER = struct.pack("<I", MAGIC)
MAX_SHOWN = 80  # characters of a vector shown in errors: an inline one may be long
_SHORTEST = 8  # magic number and the count of an empty old form
# An older form, counted one lower: Spark still reads it, and PROTOCOL.md's inline example is one.
_OLD_MAGIC = {struct.pack("<I", MAGIC - 1): "<", struct.pack(">I", MAGIC - 1): ">"}
_FRAME = struct.Struct(">i")  # dataSize and checksum of a vector in a file, big endian

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_Z85_VALUE = {character: value for value, character in enumerate(_Z85)}

Read = Callable[["LogStore", str, int, int], bytes]
"""Gives the bytes of a store's file from a place to another one: :func:`~deltanb.store.base.read_range`."""


def load(
    store: LogStore, vector: DeletionVector | Mapping[str, Any], *, data_file: str = "",
    read: Read = read_range,
) -> BitMap64:
    """The row positions that ``vector`` removes, wherever it is stored.

    ``vector`` is an action's ``DeletionVector`` or the ``deletion_vector`` struct of a files row.
    ``data_file`` only names the data file in errors. ``read`` gives bytes of files; who loads many vectors
    has them from :class:`~deltanb.engines.arrow.vector_files.VectorFiles`.

    Raises ``InvalidTable`` when the vector is damaged or its fields contradict each other, and
    ``DataFileNotFound`` when its file is gone.

    >>> dv = DeletionVector("i", "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", 40, 6)
    >>> list(load(None, dv))
    [3, 4, 7, 11, 18, 29]
    """
    dv = vector if isinstance(vector, DeletionVector) else _from_row(vector)
    shown = dv.unique_id if len(dv.unique_id) <= MAX_SHOWN else dv.unique_id[:MAX_SHOWN] + "…"
    where = f"the deletion vector {shown!r}" + (f" of {data_file!r}" if data_file else "")
    with reading("the deletion vector", shown):
        if dv.storage_type == "i":
            data = z85_decode(dv.path_or_inline_dv, dv.size_in_bytes, where)
        elif dv.storage_type in STORAGE_TYPES:
            data = _read_from_file(store, dv, where, read)
        else:
            raise _invalid(f"{where} has the storage type {dv.storage_type!r}; "
                           f"{', '.join(map(repr, STORAGE_TYPES))} exist")
        rows = decode(data, where)
    if len(rows) != dv.cardinality:
        raise _invalid(f"{where} removes {len(rows)} rows where the log says {dv.cardinality}",
                       path=data_file)
    return rows


def decode(data: bytes, where: str = "the deletion vector") -> BitMap64:
    """Row positions from the serialized form ("Deletion Vector Format").

    >>> list(decode(encode(BitMap64([1, 2**33]))))
    [1, 8589934592]
    """
    if len(data) < _SHORTEST:
        raise _invalid(f"{where} has {len(data)} bytes; the shortest has {_SHORTEST}")
    if data[:4] in _OLD_MAGIC:
        bitmap = _from_old_form(data, _OLD_MAGIC[data[:4]], where)
    elif data[:4] == _HEADER:
        bitmap = data[4:]
    else:
        raise _invalid(f"{where} begins with the bytes {data[:4].hex()}; the format known here "
                       f"begins with {_HEADER.hex()}")
    try:
        return BitMap64.deserialize(bitmap)
    except Exception as error:
        raise _invalid(f"{where} is not a roaring bitmap: {what_is_wrong(error)}") from error


def encode(rows: BitMap64) -> bytes:
    """The serialized form of row positions: magic number, then the portable 64-bit roaring bitmap.

    >>> len(encode(BitMap64([3, 4, 7, 11, 18, 29])))
    44
    """
    compact = rows.copy()
    compact.run_optimize()
    return _HEADER + bytes(compact.serialize())


def inline(rows: BitMap64) -> DeletionVector:
    """A vector that lives in the log itself; meant for few rows.

    >>> list(load(None, inline(BitMap64([7]))))
    [7]
    """
    data = encode(rows)
    return DeletionVector("i", z85_encode(data), len(data), len(rows))


def write_file(
    store: LogStore, vectors: Sequence[BitMap64], *, new_id: Callable[[], str] | None = None,
    begun: list[AddFile] | None = None,
) -> list[DeletionVector]:
    """Write one deletion vector file at the table's root; one descriptor for each of ``vectors``.

    ``new_id`` gives the file's UUID (default: ``options.new_id``), unless there is such a file. ``begun`` has
    the file, with its size, from before it is written. After an error of any kind the file is gone.

    Raises:
        StorageError: the file cannot be written.
    """
    content, places = bytearray([FILE_VERSION]), []
    for rows in vectors:
        data = encode(rows)
        places.append((len(data), len(rows), len(content)))
        content += _FRAME.pack(len(data)) + data + struct.pack(">I", zlib.crc32(data))

    files: list[AddFile] = [] if begun is None else begun

    def put(name: str) -> None:
        file = AddFile(encode_path(name), {}, len(content), 0)
        files.append(file)
        try:
            if getattr(store, "creates_only", False):
                with store.open_output(name) as sink:
                    sink.write(bytes(content))
            else:  # its name is random
                store.put(name, bytes(content))
        except FileExistsError:  # another's
            files.remove(file)
            raise
        except BaseException as error:
            with suppress(OSError):
                store.delete(name)
            if isinstance(error, OSError) and not isinstance(error, StorageError):
                raise StorageError.of(error, "written", f"{store.root.rstrip('/')}/{name}") from error
            raise

    name, _ = created(store, _file_name, put, [], drawn=(new_id or options.new_id)())
    text = z85_encode(uuid.UUID(name[-40:-4]).bytes)
    return [DeletionVector("u", text, size, cardinality, offset=offset)
            for size, cardinality, offset in places]


def _file_name(drawn: str) -> str:
    try:
        number = uuid.UUID(drawn)
    except ValueError:  # the log has room for a UUID and for nothing else
        number = uuid.UUID(random_id())
    return f"deletion_vector_{number}.bin"


def relative_path(path_or_inline_dv: str) -> str:
    """The file of a vector with storage type ``u``, relative to the table ("Derived Fields").

    >>> relative_path("ab^-aqEH.-t@S}K{vb[*k^")
    'ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin'
    """
    prefix, text = path_or_inline_dv[:-_UUID_CHARACTERS], path_or_inline_dv[-_UUID_CHARACTERS:]
    if len(text) != _UUID_CHARACTERS:
        raise _invalid(f"the deletion vector path {path_or_inline_dv!r} is not a UUID in Z85")
    name = f"deletion_vector_{uuid.UUID(bytes=z85_decode(text, 16))}.bin"
    return f"{prefix}/{name}" if prefix else name


def vector_path(storage_type: str, path_or_inline_dv: str) -> tuple[str, bool] | None:
    """The file that a vector is in, and whether that path is URL-encoded; None for one without a file.

    ``u`` gives a path relative to the table ("Derived Fields"), as does ``r``, which has it as it is;
    ``p`` is an absolute one, and encoded.

    >>> vector_path("u", "ab^-aqEH.-t@S}K{vb[*k^")
    ('ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin', False)
    >>> vector_path("r", "metadata/my vectors.bin"), vector_path("p", "s3://b/my%20vectors.bin")
    (('metadata/my vectors.bin', False), ('s3://b/my%20vectors.bin', True))
    """
    if storage_type == "u":
        return relative_path(path_or_inline_dv), False
    return (path_or_inline_dv, storage_type == "p") if storage_type in ("r", "p") else None


def encoded_path(storage_type: str, path_or_inline_dv: str) -> str | None:
    """The file that a vector is in, as actions name files; None for one without a file.

    >>> encoded_path("r", "metadata/my vectors.bin"), encoded_path("i", "wi5b")
    ('metadata/my%20vectors.bin', None)
    """
    named = vector_path(storage_type, path_or_inline_dv)
    return None if named is None else named[0] if named[1] else encode_path(named[0])


def z85_encode(data: bytes) -> str:
    """Z85 (ZeroMQ RFC 32), padded with zero bytes to a multiple of four.

    >>> z85_encode(bytes.fromhex("864FD26FB559F75B"))
    'HelloWorld'
    """
    padded = data + b"\0" * (-len(data) % 4)
    characters: list[str] = []
    for (number,) in struct.iter_unpack(">I", padded):
        group = []
        for _ in range(5):
            number, digit = divmod(number, 85)
            group.append(_Z85[digit])
        characters.extend(reversed(group))
    return "".join(characters)


def z85_decode(text: str, size: int, where: str = "the text") -> bytes:
    """The first ``size`` bytes of a Z85 text; the bytes behind them are padding.

    A last group that no four bytes give, as it begins with ``#``, is the form of delta-kernel-rs for
    fewer: as many ``#`` as there are bytes missing, then these bytes as a number.

    >>> z85_decode("HelloWorld", 8).hex()
    '864fd26fb559f75b'
    >>> z85_decode("Hello##093", 6).hex()
    '864fd26f0300'
    """
    if len(text) % 5 or not 0 <= size <= len(text) // 5 * 4:
        raise _invalid(f"{where}: {len(text)} characters of Z85 cannot hold {size} bytes")
    out = bytearray()
    missing = len(text) // 5 * 4 - size
    for start in range(0, len(text), 5):
        group = text[start:start + 5]
        short = missing if 0 < missing < 4 and start + 5 == len(text) and (
            group.startswith("#" * missing)) else 0
        number = 0
        for character in group[short:]:
            if character not in _Z85_VALUE:
                raise _invalid(f"{where}: {character!r} is not a Z85 character")
            number = number * 85 + _Z85_VALUE[character]
        if number >> (32 - 8 * short):
            raise _invalid(f"{where}: {group!r} is not a Z85 group")
        out += number.to_bytes(4 - short, "big")
    return bytes(out[:size])


def _read_from_file(store: LogStore, dv: DeletionVector, where: str, read: Read) -> bytes:
    """The bytes of a stored vector, after its length and its checksum were found right."""
    path, is_encoded = vector_path(dv.storage_type, dv.path_or_inline_dv) or ("", False)
    path = decode_path(path) if is_encoded else path
    target, name = place_of(store, path, is_encoded=False).opened()
    start, length = dv.offset or 0, _FRAME.size + dv.size_in_bytes + 4
    if start < 0 or dv.size_in_bytes < 0:
        raise _invalid(f"{where} has {dv.size_in_bytes} bytes at offset {start} of {path!r}")
    try:
        frame = read(target, name, start, start + length)
    except FileNotFoundError as error:
        raise DataFileNotFound(
            f"{where} should be in {path!r}, which does not exist: without it deleted rows would "
            "come back. Restore the file, or read a version before the deletion.",
            path=path) from error
    if len(frame) != _FRAME.size + dv.size_in_bytes + 4:
        raise _invalid(f"{where} ends early: {path!r} has {len(frame)} of the "
                       f"{dv.size_in_bytes + 8} bytes behind offset {dv.offset or 0}", file=path)
    (size,) = _FRAME.unpack_from(frame)
    if size != dv.size_in_bytes:
        raise _invalid(f"{where} has {size} bytes in {path!r} where the log says "
                       f"{dv.size_in_bytes}", file=path)
    data = bytes(frame[_FRAME.size:-4])
    (checksum,) = struct.unpack(">I", frame[-4:])
    if zlib.crc32(data) != checksum:
        raise _invalid(f"{where} is damaged: its checksum in {path!r} does not fit", file=path)
    return data


def _from_old_form(data: bytes, order: str, where: str) -> bytes:
    """The older form (count, then size and 32-bit bitmap of each key in turn) made portable."""
    number = struct.Struct(order + "I")
    (count,) = number.unpack_from(data, 4)
    out, position = bytearray(struct.pack("<Q", count)), 8
    for key in range(count):
        if position + number.size > len(data):
            raise _invalid(f"{where} ends early")
        (size,) = number.unpack_from(data, position)
        position += number.size
        out += struct.pack("<I", key) + data[position:position + size]
        position += size
    return bytes(out)


def _from_row(row: Mapping[str, Any]) -> DeletionVector:
    names = ("storage_type", "path_or_inline_dv", "size_in_bytes", "cardinality")
    missing = [name for name in names if row.get(name) is None]
    if missing:
        raise InvalidArgument(f"a deletion vector needs {', '.join(missing)}")
    return DeletionVector(row["storage_type"], row["path_or_inline_dv"], row["size_in_bytes"],
                          row["cardinality"], row.get("offset"))


def _invalid(message: str, **data: Any) -> InvalidTable:
    advice = ". Restore the file from a copy, or read an older version."
    return InvalidTable(message + advice, **data)
