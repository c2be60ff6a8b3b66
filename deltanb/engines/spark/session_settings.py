"""Delta's settings of a Spark session, honoured by commands that go through it.

What lives here: :data:`SETTINGS`, the equivalent here of each setting under ``spark.databricks.delta.``; and
:func:`through`, which applies them while a command runs. A setting overrides an option of this library, and
an argument of the command overrides the setting. Unknown settings are named once in a warning.
What it does not know: commands; the Python side of the data source, which gets no settings to plan with.

A command goes through a session if its rows are a DataFrame of it, or if Spark is the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from deltanb.errors import InvalidArgument, warn
from deltanb.options import options, set_options
from deltanb.schema import properties
from deltanb.transaction import active

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from deltanb.transaction.commit_stats import CommitStats

__all__ = ["SETTINGS", "SessionOptions", "SessionSettingWarning", "Setting", "options_of", "through"]

PREFIX = "spark.databricks.delta."
DEFAULTS = "properties.defaults."
"""Begins settings that are properties of new tables: ``properties.defaults.appendOnly``."""
LAST_VERSION = "lastCommitVersionInSession"
"""Is set after a commit through the session."""
TXN = ("write.txnAppId", "write.txnVersion")
RESET = "write.txnVersion.autoReset.enabled"


class SessionSettingWarning(UserWarning):
    """A setting of a Spark session, ``spark.databricks.delta.…``, that has no effect here."""


@dataclass(frozen=True)
class Setting:
    """The equivalent of a setting: an ``option`` of :func:`deltanb.set_options`, or an ``argument``."""

    parse: Callable[[str], Any]
    option: str | None = None
    argument: str | None = None


def _boolean(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("expected true or false")
    return text.strip().lower() == "true"


SETTINGS: Mapping[str, Setting] = {
    "commitInfo.enabled": Setting(_boolean, option="commit_info"),
    "commitInfo.userMetadata": Setting(str, option="user_metadata"),
    "commitLock.enabled": Setting(_boolean, option="commit_lock"),
    "history.metricsEnabled": Setting(_boolean, option="metrics"),
    "maxCommitAttempts": Setting(int, option="max_commit_attempts"),
    "partitionColumnValidity.enabled": Setting(_boolean, option="partition_column_check"),
    "schema.typeCheck.enabled": Setting(_boolean, option="schema_type_check"),
    "schema.autoMerge.enabled": Setting(_boolean, argument="merge_schema"),
    "optimize.maxFileSize": Setting(properties.size_in_bytes, argument="target_size"),
    TXN[0]: Setting(str, argument="txn"),
    TXN[1]: Setting(int, argument="txn"),
    RESET: Setting(_boolean, argument="txn"),
}
"""The setting behind ``spark.databricks.delta.`` -> what it is here. Beside these,
``properties.defaults.NAME`` is the option ``default_table_properties`` with ``delta.NAME``."""

ELSEWHERE: Mapping[str, str] = {
    "retentionDurationCheck.enabled": "vacuum(hours, check=False) does what it would",
    "optimizeWrite.enabled": "append(data, target_file_size=…) says how large files become",
    "autoCompact.enabled": "optimize() writes small files together",
}
"""Settings that have no effect, and what does instead."""

_warned: set[str] = set()


@dataclass(frozen=True)
class SessionOptions:
    """The settings of a session as options and arguments, and the names without effect."""

    options: dict[str, Any] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    resets_txn: bool = False


def options_of(conf: Mapping[str, str]) -> SessionOptions:
    """The settings of a session under ``spark.databricks.delta.``, by their equivalents.

    Raises:
        InvalidArgument: an invalid value, or one half of an application's version.

    >>> options_of({"spark.databricks.delta.commitInfo.userMetadata": "nightly"}).options
    {'user_metadata': 'nightly'}
    """
    values: dict[str, Any] = {}
    defaults: dict[str, str] = {}
    others = []
    for key, text in sorted(conf.items()):
        name = key.removeprefix(PREFIX)
        if name in (key, LAST_VERSION):
            continue
        if name.startswith(DEFAULTS):
            defaults[properties.spelled("delta." + name.removeprefix(DEFAULTS))] = text
        elif name in SETTINGS:
            try:
                values[name] = SETTINGS[name].parse(text)
            except ValueError as error:
                raise InvalidArgument(f"the session's {key} = {text!r}: {error}; set it to another value, or "
                                      f"spark.conf.unset({key!r})") from None
        else:
            others.append(name)
    made = {SETTINGS[name].option: value for name, value in values.items() if SETTINGS[name].option}
    if defaults:
        made["default_table_properties"] = {**options.default_table_properties, **defaults}
    arguments = {SETTINGS[name].argument: value for name, value in values.items()
                 if SETTINGS[name].argument not in (None, "txn")}
    if len(txn := [values[name] for name in TXN if name in values]) == 1:
        raise InvalidArgument(f"the session sets one of {' and '.join(PREFIX + name for name in TXN)}; they "
                              "belong together: set both, or unset both")
    if txn:
        arguments["txn"] = tuple(txn)
    return SessionOptions(made, arguments, tuple(others), values.get(RESET, False))  # type: ignore[arg-type]


def through(session: SparkSession, takes: Collection[str] = ()) -> dict[str, Any]:
    """Apply the settings of a session until the running command ends.

    Args:
        takes: the arguments of the command that settings may provide.

    Returns:
        The arguments that settings provide.

    Raises:
        InvalidArgument: a setting with an invalid value.

    Warns:
        SessionSettingWarning: settings that have no effect, each once.
    """
    heard = options_of(session.conf.getAll)
    active.until_command_ends(_counting(session, heard))
    for name in heard.others:
        _warn(name, ELSEWHERE.get(name, "it has no equivalent; those that count are "
                                        "in deltanb.engines.spark.session_settings.SETTINGS"))
    if "txn" in heard.arguments and "txn" not in takes:
        _warn(TXN[0], "append, overwrite and merge take txn=(application id, version)")
    return {name: value for name, value in heard.arguments.items() if name in takes}


def _warn(name: str, way: str) -> None:
    if name not in _warned:
        _warned.add(name)
        warn(f"the session's {PREFIX}{name} has no effect here: {way}", SessionSettingWarning)


@contextmanager
def _counting(session: SparkSession, heard: SessionOptions) -> Iterator[None]:
    def note(stats: CommitStats) -> None:
        if stats.commit_version is not None:
            session.conf.set(PREFIX + LAST_VERSION, str(stats.commit_version))
            if heard.resets_txn:
                session.conf.unset(PREFIX + TXN[1])

    with set_options(**heard.options, commit_listeners=(*options.commit_listeners, note)):
        yield
