"""How delta-spark and deltalake spell things, and what they are called here.

What lives here: :class:`Spelt`, whose classes answer a name of another library with the name it has here;
the names of a table; and :class:`Aliases`, the few that work as they are.
What it does not know: what any of the methods does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds

__all__ = ["MODULE", "TABLE", "Aliases", "Spelt", "of_module"]

TABLE: Mapping[str, str] = {
    # delta-spark
    "alias": "merge(source, on, target_alias=..., source_alias=...), which names both sides",
    "as": "merge(source, on, target_alias=..., source_alias=...), which names both sides",
    "forName": "catalog.table(name) of a deltanb.Catalog; by path it is deltanb.open(path)",
    "convertToDelta": "deltanb.convert(path, partition_by)",
    "create": "deltanb.create(path, data_or_schema)",
    "createIfNotExists": 'deltanb.create(path, data_or_schema, mode="ignore")',
    "createOrReplace": 'deltanb.create(path, data_or_schema, mode="overwrite")',
    "replace": 'deltanb.create(path, data_or_schema, mode="overwrite")',
    "columnBuilder": 'SQL in deltanb.create(path, "id bigint NOT NULL, name string")',
    "restoreToVersion": "restore(version)",
    "restoreToTimestamp": 'restore("2026-03-02 09:30")',
    "upgradeTableProtocol": "upgrade_protocol(reader_version, writer_version)",
    "addFeatureSupport": "add_feature(name)",
    "dropFeatureSupport": "drop_feature(name)",
    "cloneAtVersion": "clone(path, version)",
    "cloneAtTimestamp": "as_of(time).clone(path)",
    "executeCompaction": "optimize(where)",
    "executeZOrderBy": "optimize(where, zorder_by=columns)",
    # deltalake
    "load_as_version": "as_of(version), which gives a table that stands there",
    "load_with_datetime": "as_of(time), which gives a table that stands there",
    "load_cdf": "changes(start, end)",
    "update_incremental": "nothing: every read sees the newest version",
    "files": 'snapshot.files["path"]',
    "file_uris": 'snapshot.files["path"]',
    "get_add_actions": "snapshot.files",
    "partitions": 'snapshot.files["partition_values"]',
    "deletion_vectors": 'snapshot.files["deletion_vector"]',
    "table_uri": "path",
    "table_config": "properties",
    "transaction_version": "snapshot.set_transactions[application_id]",
    "transaction_versions": "snapshot.set_transactions",
    "alter": "add_columns, add_constraint, add_feature, drop_constraint, set_properties, set_name or "
             "set_description, of the table itself",
    "compact": "optimize(where)",
    "z_order": "optimize(where, zorder_by=columns)",
    "create_checkpoint": "log.checkpoint()",
    "cleanup_metadata": "log.clean_up()",
    "repair": "restore(version, ignore_missing_files=True), to a version before the files were lost",
    "is_deltatable": "DeltaTable.is_delta_table(path)",
    "datacatalog": "a deltanb.Catalog",
    # Spark and polars
    "toPandas": "to_pandas()",
    "toArrow": "to_arrow()",
    "show": "head(n)",
    "collect": "to_arrow().to_pylist()",
    "scan": "to_polars()",
    "read": "to_arrow(columns, where)",
    "write": "append(data) or overwrite(data)",
}
"""Names of other libraries -> what a table has for it."""


MODULE: Mapping[str, str] = {
    "write_deltalake": "create(path, data); a table that is there has append(data) and overwrite(data)",
    "convert_to_deltalake": "convert(path, partition_by)",
    "is_deltatable": "DeltaTable.is_delta_table(path)",
    "QueryBuilder": "%load_ext deltanb, and %%sql in a cell",
    "configure_spark_with_delta_pip": "nothing: table.to_df() starts Spark where none is running",
    "read": "open(path), and then to_arrow(), to_pandas(), to_polars() or to_df()",
    "load": "open(path)",
    "read_table": "open(path)",
}
"""Names of other libraries -> what the module ``deltanb`` has for it."""


def of_module(name: str) -> str:
    """What to say of a name that ``deltanb`` does not have.

    >>> of_module("convert_to_deltalake")
    'deltanb has no convert_to_deltalake; here it is convert(path, partition_by)'
    """
    hint = MODULE.get(name)
    return f"module 'deltanb' has no attribute {name!r}" if hint is None else \
        f"deltanb has no {name}; here it is {hint}"


class _Meta(type):
    """Classes that answer an unknown name, as their objects do."""

    if not TYPE_CHECKING:  # else every name would be one to mypy

        def __getattr__(cls, name: str) -> Any:
            _say(cls, name)
            raise AttributeError(
                f"type object {cls.__name__!r} has no attribute {name!r}", name=name, obj=cls)


class Spelt(metaclass=_Meta):
    """Answers names of other libraries with the name that is meant; ``_elsewhere`` lists them.

    A name in camel case is found by its words.

    >>> import deltanb as dn
    >>> dn.DeltaTable.restoreToVersion
    Traceback (most recent call last):
        ...
    AttributeError: DeltaTable has no restoreToVersion; here it is restore(version)
    """

    _elsewhere: ClassVar[Mapping[str, str]] = {}

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            _say(type(self), name)
            return object.__getattribute__(self, name)  # raises what it did, of a property as well


def _say(cls: Any, name: str) -> None:
    """Raise the error that says a name's counterpart, where it has one."""
    if name.startswith("_"):
        return
    hint = cls._elsewhere.get(name)
    if hint is None:
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
        hint = words if words != name and any(words in vars(base) for base in cls.__mro__) else None
    if hint is not None:
        _refuse(cls, name, hint)


def _refuse(cls: type, name: str, hint: str) -> NoReturn:
    raise AttributeError(f"{cls.__name__} has no {name}; here it is {hint}")


class Aliases(Spelt):
    """The names of delta-spark and deltalake that mean the same here, and work.

    >>> import deltanb as dn
    >>> table = dn.create("ducks", {"id": [1, 2]})
    >>> dn.DeltaTable.forPath("ducks").to_pyarrow_table().num_rows
    2
    >>> dn.DeltaTable.isDeltaTable("ducks")
    True
    """

    _elsewhere = TABLE

    if TYPE_CHECKING:

        @classmethod
        def for_path(cls, path: Any) -> Any: ...

        @staticmethod
        def is_delta_table(path: Any) -> bool: ...

        def to_df(self, spark: Any = None) -> Any: ...

        def to_arrow(self, columns: Any = None, where: Any = None) -> pa.Table: ...

        def to_dataset(self) -> ds.Dataset: ...

    @classmethod
    def forPath(cls, *spark_and_path: Any) -> Any:
        """delta-spark's name of :meth:`for_path`; a session before the path is not needed, and not used."""
        return cls.for_path(_path_of("forPath", spark_and_path))

    @classmethod
    def isDeltaTable(cls, *spark_and_path: Any) -> bool:
        """delta-spark's name of :meth:`is_delta_table`; a session before the path is not used."""
        return cls.is_delta_table(_path_of("isDeltaTable", spark_and_path))

    def toDF(self) -> Any:
        """delta-spark's name of :meth:`to_df`."""
        return self.to_df()

    def to_pyarrow_table(self, columns: Any = None) -> pa.Table:
        """deltalake's name of :meth:`to_arrow`; for its ``filters`` take ``to_arrow(where=...)``."""
        return self.to_arrow(columns)

    def to_pyarrow_dataset(self) -> ds.Dataset:
        """deltalake's name of :meth:`to_dataset`."""
        return self.to_dataset()


def _path_of(name: str, arguments: tuple[Any, ...]) -> Any:
    if len(arguments) not in (1, 2):
        raise TypeError(f"{name} takes a path, or a Spark session and a path")
    return arguments[-1]
