"""Where a table is made: a folder in which others have files is refused, since VACUUM would delete them.

What lives here: :func:`check_place`, and :func:`begun`, by which files of a creation that was killed are
known.
What it does not know: what the table will be.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path

from deltanb.commands.rows.change_files import CHANGE_FOLDER
from deltanb.engines.spark import permits
from deltanb.errors import DeltaError, InvalidArgument, StorageError, TableNotFound
from deltanb.log.commits import LOG_FOLDER
from deltanb.log.skipping.partitions import is_data_path
from deltanb.store.base import LogStore
from deltanb.store.drafts import hidden_name
from deltanb.store.local import is_temporary

__all__ = ["begun", "check_place", "has_iceberg", "hint_of_files", "no_table"]

_BEGUN = "begun"
"""What a creation's note is named for; the name is a temporary file's, which logs ignore."""
MAX_NAMED = 3  # files in an error
MAX_LOOKED_AT = 1000  # files among which Parquet is looked for, to name the way out


def check_place(store: LogStore, partition_by: Collection[str] = ()) -> None:
    """Refuse a place where others have files, any that VACUUM would delete, or tables in its folders.

    Files that a creation of ours has left, because it was killed, are no hindrance.

    Raises:
        InvalidArgument: naming the files, and the ways out.
    """
    names = list(islice(_files(store, partition_by), MAX_NAMED + 1))
    if not names or _is_begun(store):
        return
    some = ", ".join(names[:MAX_NAMED]) + ", …" * (len(names) > MAX_NAMED)
    hint = hint_of_files(store)
    raise InvalidArgument(
        f"{store.root} is no Delta table and not empty ({some}); a VACUUM of a table here could delete these "
        f"files. {hint}{'. Else g' if hint else 'G'}ive another path, or pass allow_files=True",
        path=store.root)


def hint_of_files(store: LogStore) -> str:
    """What opens the Iceberg table at a place, or makes a table of its Parquet files; empty where neither is
    seen."""
    if has_iceberg(store):
        return "catalog.table(name) of its catalog opens the Iceberg table there"
    has_parquet = any(name.endswith((".parquet", ".parq")) and is_data_path(name)
                      for name in islice(_files(store), MAX_LOOKED_AT))
    return f"deltanb.convert({store.root!r}) makes a table of the Parquet files there" if has_parquet else ""


def has_iceberg(store: LogStore) -> bool:
    """Whether there is an Iceberg table at a place, whose Parquet files are not its rows alone."""
    return any(name.endswith(".metadata.json") for name in store.list_names("metadata/"))


def no_table(store: LogStore) -> TableNotFound:
    """The error of a place without a table, which names the table around it, or what is there instead."""
    path = store.root
    way_out = "create one with deltanb.create(path, data)"
    folders = Path(path).parents if path.startswith(os.sep) else ()
    around = next((folder for folder in folders if (folder / LOG_FOLDER).is_dir()), None)
    if around is not None:
        way_out = f"it lies inside the table at {around}, which can be opened"
    elif os.path.isfile(path):
        way_out = "it is a file, and a table is a folder"
    else:
        with suppress(DeltaError):  # what cannot be listed has no hint
            way_out = hint_of_files(store) or way_out
    return TableNotFound(f"there is no Delta table at {path}; {way_out}", path=path)


def _files(store: LogStore, partition_by: Collection[str] = ()) -> Iterator[str]:
    """What VACUUM would delete, and logs of tables in the folder. A file without content is nobody's loss:
    other clients of a bucket make folders so."""
    return (status.name for status in store.list_all("") if status.size and (
        is_data_path(status.name.removeprefix(f"{CHANGE_FOLDER}/"), partition_by)
        or f"/{LOG_FOLDER}/" in status.name))


@contextmanager
def begun(store: LogStore) -> Iterator[None]:
    """A block in which the first files of a table are written: a note in its log says that they are its own.

    A log without files does not: that is left, too, by whoever was killed converting files of others. The
    note goes with the block, and where that fails the log. In a bucket nothing says it.

    Raises:
        StorageError: no folder can be made there.
    """
    root = store.local_path("")
    make_folder = getattr(store, "make_folder", None)
    if root is None or make_folder is None:
        yield
        return
    log = f"{root}/{LOG_FOLDER}"
    made = [folder for folder in (log, root) if not os.path.isdir(folder)]
    note = hidden_name(f"{log}/{_BEGUN}")
    try:
        try:
            make_folder(log)  # synced, as the commit takes a folder that is there to be on the disk
            os.close(os.open(note, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
            store.sync_folder(log)  # type: ignore[attr-defined]  # files may outlive a power cut: it must, too
        except OSError as error:
            raise StorageError.of(error, "written", log) from error
        yield
    finally:
        with suppress(OSError):  # one that stays is VACUUM's to remove
            os.unlink(note)
        for folder in made:
            with suppress(OSError):  # not empty
                os.rmdir(folder)


def _is_begun(store: LogStore) -> bool:
    """Whether files without a version are of a write of ours that was killed: the log has its note and no
    file, or there is the permit of a write by tasks."""
    names = store.list_names(LOG_FOLDER + "/")
    if all(map(is_temporary, names)) and any(name.startswith(f"{LOG_FOLDER}/.{_BEGUN}.") for name in names):
        return True
    return bool(permits.open_permits(store, "part-"))
