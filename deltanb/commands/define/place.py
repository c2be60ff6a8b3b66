"""The place of a new table: a folder with other files is refused, since VACUUM would delete them.

What lives here: :func:`check_place`, and :func:`begun`, which marks the files of a creation in case it is
killed.
What it does not know: the new table.
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
    """Refuse a place with files that VACUUM would delete, or with tables in its folders.

    Files that a killed creation of ours has left are ignored.

    Raises:
        InvalidArgument: names the files, and what can be done.
    """
    names = list(islice(_files(store, partition_by), MAX_NAMED + 1))
    if not names or _is_begun(store):
        return
    some = ", ".join(names[:MAX_NAMED]) + ", …" * (len(names) > MAX_NAMED)
    hint = hint_of_files(store)
    raise InvalidArgument(
        f"{store.root} is not a Delta table and not empty ({some}); a VACUUM of a table here could delete "
        f"these files. {hint}{'. Else g' if hint else 'G'}ive another path, or pass allow_files=True",
        path=store.root)


def hint_of_files(store: LogStore) -> str:
    """A hint how to open the Iceberg table at a place, or to convert its Parquet files; empty if there are
    neither."""
    if has_iceberg(store):
        return "catalog.table(name) of its catalog opens the Iceberg table there"
    has_parquet = any(name.endswith((".parquet", ".parq")) and is_data_path(name)
                      for name in islice(_files(store), MAX_LOOKED_AT))
    return f"deltanb.convert({store.root!r}) makes a table of the Parquet files there" if has_parquet else ""


def has_iceberg(store: LogStore) -> bool:
    """Whether an Iceberg table is at a place; its Parquet files may include deleted rows."""
    return any(name.endswith(".metadata.json") for name in store.list_names("metadata/"))


def no_table(store: LogStore) -> TableNotFound:
    """The error for a place without a table; it names the table around it, or what is there instead."""
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
    """The files that VACUUM would delete, and logs of tables in the folder. Empty files are ignored, since
    other clients of a bucket create folders with them."""
    return (status.name for status in store.list_all("") if status.size and (
        is_data_path(status.name.removeprefix(f"{CHANGE_FOLDER}/"), partition_by)
        or f"/{LOG_FOLDER}/" in status.name))


@contextmanager
def begun(store: LogStore) -> Iterator[None]:
    """A block in which the first files of a table are written; a note in its log marks them as its own.

    An empty log is not enough, since a killed conversion of existing files leaves one, too. The note is
    removed at the end of the block, and if the block fails, so is the log. In a bucket there is no such note.

    Raises:
        StorageError: no folder can be created there.
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
    """Whether files without a version are from a killed write of ours: the log has only its note, or there is
    the permit of a write by tasks."""
    names = store.list_names(LOG_FOLDER + "/")
    if all(map(is_temporary, names)) and any(name.startswith(f"{LOG_FOLDER}/.{_BEGUN}.") for name in names):
        return True
    return bool(permits.open_permits(store, "part-"))
