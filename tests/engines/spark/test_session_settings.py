"""Settings that Delta's users know, in a session of Spark: what each is here, for which work it counts."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

import deltanb as dn
from deltanb.engines.spark import session_settings
from deltanb.engines.spark.session_settings import (
    DEFAULTS,
    ELSEWHERE,
    LAST_VERSION,
    PREFIX,
    SETTINGS,
    TXN,
    SessionSettingWarning,
    options_of,
)
from deltanb.errors import InvalidArgument
from deltanb.options import Options, options, set_options
from deltanb.table.table import DeltaTable
from deltanb.testing import MemoryStore
from deltanb.transaction import active


class Conf(dict[str, str]):
    """Settings of a session."""

    def __init__(self, **names: str) -> None:
        super().__init__({PREFIX + name.replace("__", "."): text for name, text in names.items()})

    set, unset = dict.__setitem__, dict.__delitem__

    @property
    def getAll(self) -> dict[str, str]:
        return dict(self)


def session(**names: str) -> Any:
    return SimpleNamespace(conf=Conf(**names))


def as_command(work: Callable[[], Any]) -> Any:
    return active.command(work)()


@pytest.fixture(autouse=True)
def nobody_was_warned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_settings, "_warned", set())


@pytest.mark.parametrize("name", [name for name, setting in SETTINGS.items() if setting.option])
def test_each_that_is_an_option_counts_until_the_command_ends(name: str) -> None:
    option = SETTINGS[name].option
    assert option in vars(Options())
    (text,) = {text for text in ("false", "7", "nightly") if _parses(SETTINGS[name].parse, text)} - (
        {"7", "false"} if SETTINGS[name].parse is str else set())
    conf = session()
    conf.conf[PREFIX + name] = text

    def work() -> Any:
        session_settings.through(conf)
        return getattr(options, option)

    before = getattr(options, option)
    assert as_command(work) == SETTINGS[name].parse(text) != before
    assert getattr(options, option) == before


def _parses(parse: Callable[[str], Any], text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


def test_defaults_of_properties_are_those_of_new_tables() -> None:
    settings = options_of({f"{PREFIX}{DEFAULTS}appendonly": "true", "spark.other": "1"})
    assert settings.options == {"default_table_properties": {
        "delta.appendOnly": "true"}} and not settings.others
    with set_options(default_table_properties={"delta.checkpointInterval": 7, "delta.appendOnly": False}):
        assert options_of({f"{PREFIX}{DEFAULTS}appendOnly": "true"}).options["default_table_properties"] == {
            "delta.checkpointInterval": "7", "delta.appendOnly": "true"}


@pytest.mark.parametrize(("names", "match"), [
    ({"commitInfo__enabled": "yes"}, r"delta\.commitInfo\.enabled = 'yes': expected true or false.*unset"),
    ({"maxCommitAttempts": "many"}, "maxCommitAttempts = 'many'"),
    ({"write__txnAppId": "app"}, "belong together"), ({"write__txnVersion": "1"}, "belong together"),
])
def test_values_that_a_setting_cannot_have_are_refused(names: dict[str, str], match: str) -> None:
    with pytest.raises(InvalidArgument, match=match):
        as_command(lambda: session_settings.through(session(**names)))


def test_others_warn_once_and_say_what_does_instead() -> None:
    conf = session(
        snapshotPartitions="2", retentionDurationCheck__enabled="false", lastCommitVersionInSession="3")
    with pytest.warns(SessionSettingWarning) as caught:
        as_command(lambda: session_settings.through(conf))
    assert sorted(str(one.message).partition(" has no effect")[0].rpartition(".delta.")[2]
                  for one in caught) == ["retentionDurationCheck.enabled", "snapshotPartitions"]
    assert any(ELSEWHERE["retentionDurationCheck.enabled"] in str(one.message) for one in caught)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        as_command(lambda: session_settings.through(conf))


def test_a_session_learns_the_version_that_was_committed_last_and_forgets_one_that_is_done() -> None:
    conf = session(write__txnAppId="app", write__txnVersion="1", write__txnVersion__autoReset__enabled="true")
    table = dn.create(MemoryStore(), {"id": [1]})

    def work() -> Any:
        arguments = session_settings.through(conf, ("txn",))
        table.append({"id": [2]}, **arguments)
        return arguments

    assert as_command(work) == {"txn": ("app", 1)}
    assert conf.conf[PREFIX + LAST_VERSION] == "1"
    assert PREFIX + TXN[0] in conf.conf and PREFIX + TXN[1] not in conf.conf
    assert table.snapshot.set_transactions["app"] == 1
    table.append({"id": [3]})
    assert conf.conf[PREFIX + LAST_VERSION] == "1", "not through the session"


# --- in a session -----------------------------------------------------------------------------------

@pytest.fixture
def conf(spark: Any) -> Iterator[Any]:
    """The settings of the session, which has none of these afterwards."""
    yield spark.conf
    for name in spark.conf.getAll:
        if name.startswith(PREFIX):
            spark.conf.unset(name)


@pytest.fixture
def table(tmp_path: Any) -> DeltaTable:
    return dn.create(tmp_path / "t", {"id": [1, 2]})


WORKS: dict[str, Callable[[DeltaTable, Any], Any]] = {
    "append": lambda t, frame: t.append(frame),
    "overwrite": lambda t, frame: t.overwrite(frame),
    "merge": lambda t, frame: t.merge(frame, "target.id = source.id").when_not_matched_insert_all().execute(),
    "create": lambda t, frame: dn.create(t.path, frame, mode="overwrite"),
    "delete": lambda t, frame: t.delete("id = 1", engine="spark"),
    "update": lambda t, frame: t.update({"id": "9"}, "id = 1", engine="spark"),
    "optimize": lambda t, frame: (t.append({"id": [3]}), t.optimize(engine="spark")),
}


@pytest.mark.spark
@pytest.mark.parametrize("work", WORKS)
def test_work_through_a_session_is_done_as_it_says(
    work: str, table: DeltaTable, spark: Any, conf: Any
) -> None:
    conf.set(f"{PREFIX}commitInfo.userMetadata", "nightly")
    conf.set(f"{PREFIX}history.metricsEnabled", "false")
    WORKS[work](table, spark.range(5, 7))
    newest = table.history()[0]
    assert newest.user_metadata == "nightly" and not newest.operation_metrics
    assert conf.get(PREFIX + LAST_VERSION) == str(table.version)
    table.append({"id": [8]})
    assert table.history()[0].user_metadata is None and table.history()[0].operation_metrics


@pytest.mark.spark
def test_an_argument_goes_before_a_setting(table: DeltaTable, spark: Any, conf: Any) -> None:
    conf.set(f"{PREFIX}commitInfo.userMetadata", "nightly")
    table.append(spark.range(1), user_metadata="by hand")
    assert table.history()[0].user_metadata == "by hand"


@pytest.mark.spark
def test_columns_come_by_themselves_where_a_session_says_so(
    table: DeltaTable, spark: Any, conf: Any
) -> None:
    conf.set(f"{PREFIX}schema.autoMerge.enabled", "true")
    table.append(spark.range(1).selectExpr("id", "'a' AS name"))
    assert table.schema.names == ["id", "name"]
    rows = spark.range(50, 51).selectExpr("id", "'b' AS name", "1 AS more")
    table.merge(rows, "target.id = source.id").when_not_matched_insert_all().execute()
    assert table.schema.names == ["id", "name", "more"]
    table.overwrite(spark.range(1), overwrite_schema=True)
    assert table.schema.names == ["id"]


@pytest.mark.spark
def test_new_tables_and_writes_that_are_tried_again(tmp_path: Any, spark: Any, conf: Any) -> None:
    conf.set(f"{PREFIX}properties.defaults.appendOnly", "true")
    conf.set(f"{PREFIX}write.txnAppId", "app")
    conf.set(f"{PREFIX}write.txnVersion", "3")
    table = dn.create(tmp_path / "new", spark.range(2))
    assert table.properties == {"delta.appendOnly": "true"}
    assert table.append(spark.range(2)).version is None, "the version is there already"
    conf.set(f"{PREFIX}write.txnVersion", "4")
    assert table.append(spark.range(2)).version == 1
