"""The requested session: consistent arguments, and whether a running session matches them.

What lives here: :class:`SessionRequest`, made from the arguments of
:func:`deltanb.engines.spark.session.spark`; :func:`is_remote` and :func:`is_on_this_machine`, which
distinguish kinds of sessions.
What it does not know: how a session is started, Java, tables.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from deltanb.errors import IllegalStateError, InvalidArgument
from deltanb.text.safe_text import redacted

__all__ = ["SessionRequest", "is_on_this_machine", "is_remote", "request_session"]

_MASTER, _REMOTE, _PACKAGES = "spark.master", "spark.remote", "spark.jars.packages"
UI = "spark.ui.enabled"
_MASTERS = re.compile(r"local(\[(\d+|\*)(\s*,\s*\d+)?\])?|local-cluster\[.+\]|yarn|(spark|k8s)://\S+")
_COORDINATES = re.compile(r"[\w.-]+:[\w.-]+:[\w.+-]+", re.ASCII)
_PORT = 15002  # of a Connect server whose address names none
_LOOPBACK = ("localhost", "127.0.0.1", "::1", "[::1]")


@dataclass(frozen=True)
class SessionRequest:
    """A requested session; None and () mean anything."""

    remote: str | None
    master: str | None
    packages: tuple[str, ...]
    config: Mapping[str, str]
    ui: bool | None = None

    def must_be(self, running: Any, *, is_ours: bool) -> None:
        """Check a running session against the request, and apply ``config`` to one that was started here.

        Raises:
            IllegalStateError: it is another session, or has settings that must not be changed.
        """
        if is_remote(running):
            self._must_be_remote(running)
        else:
            self._must_be_local(running)
        for key, value in self.config.items():
            has = running.conf.get(key, None)
            if has == value:
                continue
            if not is_ours:
                raise IllegalStateError(
                    "a Spark session that was started elsewhere runs in this process, with "
                    f"{_as_text(key, has)}: config={{{key!r}: {value!r}}} is not applied to it. Set it "
                    f"yourself (session.conf.set({key!r}, {value!r})), leave it out, or call .stop() on the "
                    "session first")
            _set(running, key, value)

    def _must_be_remote(self, running: Any) -> None:
        address = _address_of(running)
        if self.master is not None or self.packages or self.ui:
            asked = f"packages={list(self.packages)}" if self.packages else "ui=True"
            raise _other(f"one of the Connect server at {address}",
                         f"master={self.master!r}" if self.master else asked)
        if self.remote is not None and not _is_same(address, self.remote):
            raise _other(f"one of the Connect server at {address}", f"remote={redacted(self.remote)!r}")

    def _must_be_local(self, running: Any) -> None:
        if self.remote is not None:
            raise IllegalStateError(
                f"a local Spark session runs in this process, so {redacted(self.remote)} cannot be joined; "
                "call .stop() on it, or use another process")
        master = running.conf.get(_MASTER, None)
        if self.master not in (None, master):
            raise _other(f"one with the master {master}", f"master={self.master!r}")
        has = _split(running.conf.get(_PACKAGES, None) or "")
        missing = [one for one in self.packages if one not in has]
        if missing:
            raise _other("one without " + ", ".join(missing), f"packages={list(self.packages)}")
        if self.ui is not None and self.ui != (running.conf.get(UI, "true") == "true"):
            raise _other(f"one with{'out' if self.ui else ''} a web UI", f"ui={self.ui}")


def request_session(
    remote: str | None, master: str | None, packages: Sequence[str] | str | None,
    config: Mapping[str, Any] | None, ui: bool | None = None,
) -> SessionRequest:
    """The arguments combined with ``config`` and ``SPARK_REMOTE``.

    Raises:
        InvalidArgument: they contradict each other, or one has a wrong type or value.

    >>> request_session(None, "local[4]", "org.apache.hadoop:hadoop-aws:3.5.0", {}).packages
    ('org.apache.hadoop:hadoop-aws:3.5.0',)
    >>> request_session("sc://host", "local[4]", None, {})
    Traceback (most recent call last):
        ...
    deltanb.errors.InvalidArgument: remote='sc://host' is a server that has its own master, ...
    """
    in_settings = _config(config)
    remote = _once("remote", remote, in_settings.pop(_REMOTE, None))
    master = _once("master", master, in_settings.pop(_MASTER, None))
    ui = _shown(ui, in_settings.pop(UI, None))
    in_config = in_settings.pop(_PACKAGES, None)
    if packages is not None and in_config is not None:
        raise InvalidArgument(f"packages are given twice, the second time as config={{{_PACKAGES!r}: ...}}; "
                              "give all of them as packages=[...]")
    named = _packages(in_config if packages is None else packages)
    origin = f"remote={redacted(remote)!r}" if remote else ""
    if not remote and os.environ.get("SPARK_REMOTE"):
        remote = os.environ["SPARK_REMOTE"]
        origin = f"SPARK_REMOTE={redacted(remote)!r} of the environment"
    if remote is not None and not remote.startswith("sc://"):
        raise InvalidArgument(f"{origin} is not a Spark Connect address; write it as 'sc://host:15002'")
    if remote is not None and master is not None:
        raise InvalidArgument(f"{origin} is a server that has its own master, and master={master!r} asks for "
                              "another; give one of the two")
    if remote is not None and named:
        raise InvalidArgument(
            f"{origin} is a server that runs already, and packages are loaded when one starts; start it with "
            f"--packages {','.join(named)}, or leave packages out")
    if remote is not None and ui:
        raise InvalidArgument(f"{origin} is a server, which has a web UI of its own or none; leave ui out")
    if master is not None and _MASTERS.fullmatch(master) is None:
        hint = "; a Connect server is given as remote=" if master.startswith("sc://") else ""
        raise InvalidArgument(f"master={master!r} is not a Spark master: write 'local[2]', 'local[*]', "
                              f"'spark://host:7077', 'yarn' or 'k8s://...'{hint}")
    return SessionRequest(remote, master, named, in_settings, ui)


def is_remote(session: Any) -> bool:
    """Whether it is the session of a Connect server, which has no JVM in this process."""
    return type(session).__module__.startswith("pyspark.sql.connect")


def is_on_this_machine(session: Any) -> bool:
    """Whether all tasks of a session run on the machine of this process, as its user."""
    master = "" if is_remote(session) else session.conf.get(_MASTER, None) or ""
    return master == "local" or master.startswith("local[")


def _config(config: Mapping[str, Any] | None) -> dict[str, str]:
    if config is not None and not isinstance(config, Mapping):
        raise InvalidArgument(f"config is a dict of Spark settings, found {type(config).__name__}")
    settings = {}
    for key, value in (config or {}).items():
        if not isinstance(key, str) or not isinstance(value, str | bool | int | float):
            raise InvalidArgument(f"config takes strings, numbers and booleans by name, found {key!r} with "
                                  f"{type(value).__name__}")
        settings[key] = str(value).lower() if isinstance(value, bool) else str(value)
    return settings


def _once(name: str, argument: str | None, in_config: str | None) -> str | None:
    """An argument that ``config`` may also have."""
    if argument is not None and (not isinstance(argument, str) or not argument.strip()):
        raise InvalidArgument(f"{name} is a string, found {argument!r}; leave it out where any will do")
    if argument is not None and in_config not in (None, argument):
        raise InvalidArgument(f"{name}={argument!r} and config={{'spark.{name}': {in_config!r}}} contradict "
                              "each other; give one of the two")
    return argument if argument is not None else in_config


def _shown(ui: bool | None, in_config: str | None) -> bool | None:
    """Whether a web UI is requested; None if unspecified."""
    if ui is not None and not isinstance(ui, bool):
        raise InvalidArgument(f"ui is True or False, found {ui!r}; leave it out where either will do")
    if in_config is None:
        return ui
    if ui is not None and in_config != str(ui).lower():
        raise InvalidArgument(f"ui={ui} and config={{{UI!r}: {in_config!r}}} contradict each other; give "
                              "one of the two")
    return in_config == "true"


def _packages(argument: Sequence[str] | str | None) -> tuple[str, ...]:
    """Maven coordinates, each once."""
    names = _split(argument) if isinstance(argument, str) else tuple(argument or ())
    versions: dict[str, str] = {}
    for one in names:
        if not isinstance(one, str) or _COORDINATES.fullmatch(one) is None:
            raise InvalidArgument(
                f"packages has {one!r}, which is not a Maven coordinate; write group:artifact:version, as "
                "'org.apache.hadoop:hadoop-aws:3.5.0'")
        artifact, _, version = one.rpartition(":")
        if versions.setdefault(artifact, version) != version:
            raise InvalidArgument(f"packages asks for {artifact} as {versions[artifact]} and as {version}; a "
                                  "session has one of them")
    return tuple(dict.fromkeys(names))


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _other(runs: str, asked: str) -> IllegalStateError:
    return IllegalStateError(
        f"a Spark session runs in this process, {runs}, and {asked} asks for another. Call .stop() on it and "
        f"start again, use another process, or leave {asked.partition('=')[0]} out to go on with it")


def _as_text(key: str, value: str | None) -> str:
    return f"{key} not set" if value is None else f"{key}={redacted(value)!r}"


def _set(running: Any, key: str, value: str) -> None:
    """Apply settings that can be changed while a session runs."""
    from pyspark.errors import PySparkException

    try:
        running.conf.set(key, value)
    except PySparkException as error:
        raise IllegalStateError(
            f"the Spark session runs already, and {key} is set when one starts "
            f"({str(error).splitlines()[0]}); call .stop() on it, and start with config={{{key!r}: ...}}"
        ) from None


def _address_of(running: Any) -> str:
    """``host:port`` of a Connect session, as far as it is known."""
    with suppress(AttributeError):  # the port stands in no public place
        return str(running.client._builder.endpoint)
    return str(running.client.host)


def _is_same(address: str, remote: str) -> bool:
    """Whether ``host:port``, or only a host, matches an address ``sc://...``."""
    one, other = urlsplit(f"sc://{address}"), urlsplit(remote)
    hosts = {"localhost" if host in _LOOPBACK else host for host in (one.hostname, other.hostname)}
    return len(hosts) == 1 and (one.port or other.port or _PORT) == (other.port or _PORT)
