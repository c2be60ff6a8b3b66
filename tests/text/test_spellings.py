"""Names and arguments of delta-rs, Delta Spark, PySpark, pandas and polars: what people write from habit
works, or is answered with what it is here. What these libraries have is read from them."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import deltanb as dn
from deltanb.commands.merge.merge import MergeBuilder
from deltanb.errors import InvalidArgument, WrongCall
from deltanb.table.contract import declared
from deltanb.text import spelling_table
from deltanb.text.spelling_table import MODULE, RESULT, SPELLINGS, TABLE, Keyword, Name, names_at
from deltanb.text.spellings import spelling_of
from tests.helpers import table_of

CALL = re.compile(r"(?:a )?([A-Za-z_][\w.]*)")


# -- the table against the libraries -----------------------------------------------------------------------


def public(*classes: Any) -> Iterator[str]:
    for one in classes:
        yield from (name for name in dir(one) if not name.startswith("_"))


def theirs(module: str) -> Any:
    return pytest.importorskip(module, reason=f"{module} is not installed")


def deltalake() -> Iterator[tuple[str, Any, str]]:
    """Names of a table of deltalake: the name, what it is, and how it is asked for."""
    table = theirs("deltalake.table")
    for name in public(table.DeltaTable):
        yield name, getattr(table.DeltaTable, name), name
    for kind, prefix in ((table.TableAlterer, ""), (table.TableOptimizer, "optimize.")):
        for name in public(kind):
            yield name, getattr(kind, name), f"{prefix}{name}"


def delta_spark() -> Iterator[tuple[str, Any, str]]:
    tables = theirs("delta.tables")
    for kind in (tables.DeltaTable, tables.DeltaOptimizeBuilder):
        for name in public(kind):
            yield name, getattr(kind, name), name


def frames(module: str, *classes: str) -> Callable[[], Iterator[tuple[str, Any, str]]]:
    def each() -> Iterator[tuple[str, Any, str]]:
        frame = theirs(module)
        for kind in (getattr(frame, one) for one in classes):
            for name in public(kind):
                yield name, inspect.getattr_static(kind, name), name

    return each


FRAMES = ("pandas", "polars", "pyspark")
LIBRARIES: dict[str, Callable[[], Iterator[tuple[str, Any, str]]]] = {
    "deltalake": deltalake, "delta-spark": delta_spark, "pandas": frames("pandas", "DataFrame"),
    "polars": frames("polars", "DataFrame", "LazyFrame"), "pyspark": frames("pyspark.sql", "DataFrame"),
}


def ours(name: str, asked: str) -> str | None:
    """The name here: one that the table has, or what the table of spellings begins with; None if nothing
    answers."""
    if asked == name and hasattr(dn.DeltaTable, name):
        return name
    hint = names_at(TABLE).get(asked) or (names_at(RESULT).get(asked) if asked == name else None)
    if hint is None:
        with pytest.raises(AttributeError) as caught:
            getattr(dn.DeltaTable, name)
        hint = str(caught.value).partition("here it is ")[2]
    call = CALL.match(hint or "")
    return (call and call[1]) or None


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_name_of_a_table_elsewhere_is_ours_or_answered(library: str) -> None:
    unanswered = [asked for name, _, asked in LIBRARIES[library]() if ours(name, asked) is None]
    assert unanswered == []


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_argument_of_a_table_elsewhere_is_ours_or_answered(library: str) -> None:
    """Of each method that is called the same here; of Delta's, also those with a counterpart in the table."""
    methods = declared(dn.DeltaTable)
    tried, unanswered = 0, []
    for name, function, asked in LIBRARIES[library]():
        if library in FRAMES and not hasattr(dn.DeltaTable, name):
            continue  # what they take is said by the frame that the rows are read into
        method = ours(name, asked) or ""
        method = "create" if method == "deltanb.create" else method.removeprefix("DeltaTable.")
        target = dn.create if method == "create" else getattr(dn.DeltaTable, method, None) \
            if method in methods or method in ("for_path", "is_delta_table") else None
        if target is None or not callable(getattr(function, "__func__", function)):
            continue
        try:
            parameters = inspect.signature(getattr(function, "__func__", function)).parameters.values()
        except (TypeError, ValueError):  # one that is not written in Python
            continue
        takes = [one for one in inspect.signature(target).parameters if one not in ("self", "cls")]
        for parameter in parameters:
            if parameter.name in ("self", "cls", *takes) or parameter.kind in (
                    parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                continue
            tried += 1
            if spelling_of(method, parameter.name, takes) is None:
                unanswered.append(f"{asked}({parameter.name}=) of {method}")
    assert tried >= 2 and unanswered == []


@pytest.mark.parametrize(("module", "names"), [
    ("deltalake", ("write_deltalake", "convert_to_deltalake", "DeltaTable")), ("delta", ("DeltaTable",)),
    ("polars", ("read_delta", "scan_delta"))])
def test_every_name_of_a_module_elsewhere_is_ours_or_answered(module: str, names: tuple[str, ...]) -> None:
    library = theirs(module)
    if module == "deltalake":
        for each in pkgutil.iter_modules(library.__path__):  # as reading a table through it does
            importlib.import_module(f"deltalake.{each.name}")
    if module != "polars":
        names = tuple(name for name, thing in vars(library).items() if not name.startswith("_") and
                      (getattr(thing, "__module__", None) or thing.__name__).startswith(module))
    assert set(names) >= {"DeltaTable"} or module == "polars"
    for name in names:
        assert hasattr(library, name)
        if not hasattr(dn, name):
            with pytest.raises(AttributeError, match=f"^deltanb has no {name}; "):
                getattr(dn, name)


FUNCTIONS = {"write_deltalake": dn.create, "convert_to_deltalake": dn.convert, "DeltaTable": dn.open}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_argument_of_a_function_of_deltalake_is_ours_or_answered(name: str) -> None:
    function = getattr(theirs("deltalake"), name)
    takes = list(inspect.signature(FUNCTIONS[name]).parameters)
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is not parameter.VAR_POSITIONAL and parameter.name not in takes:
            assert spelling_of(FUNCTIONS[name].__name__, parameter.name, takes), parameter.name


@pytest.mark.parametrize(("module", "kind"), [
    ("deltalake.table", "TableMerger"), ("delta.tables", "DeltaMergeBuilder")])
def test_a_merge_elsewhere_has_no_clause_or_argument_that_is_not_answered(module: str, kind: str) -> None:
    builder = getattr(theirs(module), kind)
    for name in public(builder):
        mine = getattr(MergeBuilder, re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower())
        if not hasattr(MergeBuilder, name):
            answer = f"MergeBuilder has no {name}; here it is {mine.__name__}"
            with pytest.raises(AttributeError, match=answer):
                getattr(MergeBuilder, name)
        takes = list(inspect.signature(mine).parameters)
        for argument in inspect.signature(getattr(builder, name)).parameters:
            assert argument in takes or spelling_of(mine.__name__, argument, takes), (name, argument)


# -- the table itself ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [row for row in SPELLINGS if isinstance(row, Name) and row.at == TABLE],
                         ids=lambda row: row.words.split()[0])
def test_a_name_of_another_library_says_the_name_here(row: Name) -> None:
    table = table_of({"id": [1]})
    for name in row.words.split():
        if "." in name or hasattr(dn.DeltaTable, name):
            continue
        for holder in (table, dn.DeltaTable):
            with pytest.raises(AttributeError, match=f"^DeltaTable has no {name}; "):
                getattr(holder, name)


def test_what_is_named_is_there() -> None:
    """Every call that an answer begins with is one of the table, or of the module they say."""
    table = table_of({"id": [1]})
    result = table.append({"id": [2]})
    places = {MODULE: dn, TABLE: table, RESULT: result, "history": table.history(), "catalog": dn.Catalog}
    for row in SPELLINGS:
        if not isinstance(row, Name) or row.at not in places:
            continue
        if row.ours.startswith(("nothing", "%", "SQL", "a ")):
            continue
        call = CALL.match(row.ours)
        assert call is not None
        words = call[1].split(".")
        if words[0] in ("catalog", "user_metadata", "compression", "the", "its"):
            continue
        owner: Any = places[row.at]
        if words[0] in ("deltanb", "DeltaTable"):
            owner, words = {"deltanb": dn, "DeltaTable": dn.DeltaTable}[words[0]], words[1:]
        for word in words:
            owner = getattr(owner, word)


def test_no_row_repeats_another() -> None:
    """Of a place, each name has one answer beside those of frames, and each argument of a method has one."""
    of_frames = (spelling_table._PANDAS, spelling_table._POLARS, spelling_table._PYSPARK)
    names = [(row.at, word) for row in SPELLINGS if isinstance(row, Name) and row.words not in of_frames
             for word in row.words.split()]
    assert len(names) == len(set(names)), {one for one in names if names.count(one) > 1}
    arguments = [(word, method, row.ours or row.advice) for row in SPELLINGS if isinstance(row, Keyword)
                 for word in row.words.split() for method in row.methods.split() or [""]]
    assert len(arguments) == len(set(arguments))


def test_the_table_is_loaded_by_the_first_slip() -> None:
    import subprocess
    import sys

    code = ("import sys, deltanb as dn; t = dn.create(dn.testing.MemoryStore(), {'id': [1]}); t.count(); "
            "loaded = lambda: 'deltanb.text.spelling_table' in sys.modules; before = loaded()\n"
            "try: t.forName\nexcept AttributeError: print(before, loaded())")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False True"


# -- what works, and what is told ---------------------------------------------------------------------------


def test_aliases_are_the_methods_they_name(tmp_path: Path) -> None:
    path = str(tmp_path / "ducks")
    table = dn.create(path, {"id": [1, 2]})
    assert dn.DeltaTable.forPath(path).log is table.log is dn.DeltaTable.forPath("a session", path).log
    assert dn.DeltaTable.forPath(sparkSession="a session", path=path).log is table.log
    assert dn.DeltaTable.isDeltaTable("a session", path) and not dn.DeltaTable.isDeltaTable(path + "x")
    assert dn.DeltaTable.isDeltaTable(sparkSession="a session", identifier=path)
    assert table.to_pyarrow_table(["id"]).num_rows == 2 == table.count()
    with pytest.raises(TypeError, match="a Spark session and a path"):
        dn.DeltaTable.forPath()
    with pytest.raises(WrongCall, match="here it is storage_options= of for_path"):
        dn.DeltaTable.forPath("a session", path, hadoopConf={"a": "b"})


@pytest.mark.spark
def test_to_df_has_its_spelling_of_delta_spark(tmp_path: Path, spark: Any) -> None:
    assert dn.create(tmp_path / "ducks", {"id": [1, 2]}).toDF().count() == 2


@pytest.mark.parametrize(("slip", "message"), [
    (lambda t: t.delete(predicate="id = 1"), r"^delete\(\) has no argument 'predicate'; here it is where=$"),
    (lambda t: t.update(updates={"id": "1"}, predicate="id = 1"),
     r"'updates'; here it is assignments=\. It has no 'predicate'; here it is where=$"),
    (lambda t: t.update(new_values={"v": "x"}), r"here it is assignments= \(a string is SQL here"),
    (lambda t: t.append({"id": [1]}, schema_mode="merge"), r"here it is merge_schema= \(True is their"),
    (lambda t: t.append({"id": [1]}, mode="overwrite"), r"overwrite\(data\) replaces them"),
    (lambda t: t.append({"id": [1]}, partition_by="id"), "a table keeps the columns it was created with"),
    (lambda t: t.to_pandas(storage_options={}), r"pass storage_options where the table is opened"),
    (lambda t: t.merge({"id": [1]}, predicate="x"), r"^merge\(\) has no .*'predicate'; here it is on=$"),
    (lambda t: t.merge({"id": [1]}, "id").when_matched_update(updates={}), r"'updates'; here it is set="),
    (lambda t: t.vacuum(retentionHours=1), "here it is retention_hours=$"),
    (lambda t: t.append({"id": [1]}, merge_shema=True), r"'merge_shema'; did you mean merge_schema=\?$"),
    (lambda t: t.detail(full=True), r"detail\(\) has no argument 'full'; it has none"),
    (lambda t: t.restore(target=1), "here it is moment="),
    (lambda t: dn.DeltaTable("ducks", version=1), r"^DeltaTable\(\) has no .*open\(path, version=…"),
    (lambda t: dn.create("ducks", configuration={}), r"^create\(\) .*; here it is properties="),
    (lambda t: dn.open("ducks", versionAsOf=1), "here it is version="),
    (lambda t: t.version(), r"^version is a property here: write table\.version, without \(\)$"),
    (lambda t: t.schema(), r"write table\.schema"), (lambda t: t.metadata(), r"write table\.metadata"),
    (lambda t: t.protocol(), r"write table\.protocol"),
    (lambda t: t.transaction().version(), "table.version"),
    (lambda t: t.history(1)[0]["userName"], r"such as entry\.user_name"),
])
def test_a_wrong_call_says_what_to_write(slip: Callable[[Any], Any], message: str) -> None:
    table = table_of({"id": [1], "v": ["a"]})
    with pytest.raises(WrongCall, match=message) as caught:
        slip(table)
    assert isinstance(caught.value, TypeError) and isinstance(caught.value, InvalidArgument)
    assert caught.value.__context__ is None, "one traceback"
    assert table.version == 0


@pytest.mark.parametrize(("slip", "message"), [
    (lambda t: t.optimize.compact(), r"there is no optimize\.compact; here it is optimize\(where\)$"),
    (lambda t: t.optimize.z_order(["id"]), r"here it is optimize\(where, zorder_by=columns\)$"),
    (lambda t: t.optimize().executeCompaction(), "has run already, and this is its result"),
    (lambda t: t.history().toPandas(), r"here it is to_pandas\(\)"),
    (lambda t: t.history(1)[0].operationMetrics, r"here it is operation_metrics$"),
    (lambda t: t.groupby("id"), r"here it is to_pandas\(\)\.groupby or to_df\(\)\.groupby$"),
    (lambda t: t.update_incremental(), "; every read sees the newest version$"),
    (lambda t: dn.read_delta("x"), r"here it is open\(path\)\.to_pandas\(\)"),
    (lambda t: dn.read_parquet("x"), r"pandas\.read_parquet\(…\); a folder .* convert\(path\)$"),
])
def test_a_wrong_name_says_what_to_write(slip: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(AttributeError, match=message):
        slip(table_of({"id": [1]}))


def test_camel_case_is_found_by_its_words() -> None:
    table = table_of({"id": [1]})
    with pytest.raises(AttributeError, match="here it is add_columns"):
        _ = table.addColumns  # type: ignore[attr-defined]
    builder = table.merge({"id": [1]}, "target.id = source.id")
    with pytest.raises(AttributeError, match="MergeBuilder has no .*here it is when_matched_update_all"):
        _ = builder.whenMatchedUpdateAll  # type: ignore[attr-defined]


def test_other_names_are_answered_as_python_does(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of({"id": [1]})
    for holder in (table, dn.DeltaTable):
        with pytest.raises(AttributeError, match="no attribute 'quack'"):
            _ = holder.quack  # type: ignore[union-attr]
        assert not hasattr(holder, "_repr_latex_")

    def broken(self: Any) -> None:
        raise AttributeError("from within a property")

    monkeypatch.setattr(dn.DeltaTable, "name", property(broken))
    with pytest.raises(AttributeError, match="from within a property"):
        _ = table.name


def test_a_version_is_a_number_wherever_it_goes() -> None:
    import json
    import pickle

    import pyarrow as pa

    version = table_of({"id": [1]}).version
    assert (json.dumps(version), repr(version), f"{version}") == ("0", "0", "0")
    assert type(pickle.loads(pickle.dumps(version))) is int and type(version + 1) is int
    assert pa.array([version]).type == pa.int64() and {0: "x"}[version] == "x"


def test_a_path_is_not_a_log() -> None:
    with pytest.raises(InvalidArgument, match=re.escape("deltanb.open('ducks')")):
        dn.DeltaTable("ducks")  # type: ignore[arg-type]


def test_a_name_is_of_the_table_it_is_asked_of() -> None:
    module = importlib.import_module("deltanb.text.spelling_table")
    with pytest.raises(AttributeError):
        _ = module.quack
    assert names_at("nowhere") == {}
