"""Our Java classes in the JVM of a session, compiled there by Spark's compiler of generated code.

What lives here: compiling a class for the driver only, or for executors, too; and whether a class exists.
Besides ``listed``, this is the only module that uses more than PySpark's API; if it cannot (a Connect session
has no JVM, another Spark may have other classes), it says so, and callers work without the class.
What it does not know: what the classes are for.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import weakref
import zipfile
from functools import cache
from importlib.resources import files as resources
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from deltanb.engines.spark.session_request import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["compiled", "has_class", "is_everywhere", "is_on_driver", "source"]

JAVA_VERSION = 8  # of the source; Janino, which compiles it, takes 6 unless told

_placed: weakref.WeakKeyDictionary[Any, dict[tuple[str, bool], bool]] = weakref.WeakKeyDictionary()
"""By application, whether a class is on its driver, or everywhere."""


def compiled(session: SparkSession, text: str, name: str) -> Any:
    """A class compiled from Java source, for the driver's JVM only.

    Raises:
        Py4JError, TypeError: it cannot be compiled.
    """
    compiler = _cooked(session, text)
    return compiler.getClassLoader().loadClass(f"deltanb.{name}")


def is_on_driver(session: SparkSession, name: str) -> bool:
    """Put a class of ours on the class path of a session's driver, where Spark looks for it by its name.

    Returns:
        Whether that worked. It is done once per application.
    """
    return _is_there(session, name, everywhere=False)


def is_everywhere(session: SparkSession, name: str) -> bool:
    """Put a class of ours on the class path of a session and all its executors; whether that worked.

    It is done once per application, with a JAR.
    """
    return _is_there(session, name, everywhere=True)


def _is_there(session: SparkSession, name: str, everywhere: bool) -> bool:
    if is_remote(session):
        return False
    known = _placed.setdefault(session.sparkContext, {})
    if (name, everywhere) not in known:
        try:
            known[name, everywhere] = _distribute(session, name, everywhere)
        except (Py4JError, PySparkException, TypeError):  # TypeError: to Py4J what is not there is a package
            known[name, everywhere] = False
    return known[name, everywhere]


def has_class(session: SparkSession, name: str) -> bool:
    """Whether Hadoop finds a class on the session's class path for file systems.

    SQL's ``reflect`` would know it, too, but prints an error in sessions that were not started here.
    """
    if is_remote(session):
        return False
    try:
        return session._jsc.sc().hadoopConfiguration().getClassByNameOrNull(name) is not None
    except (Py4JError, TypeError):
        return False


def _distribute(session: SparkSession, name: str, everywhere: bool) -> bool:
    code = {str(key): bytes(value) for key, value in _cooked(session, source(name)).getBytecodes().items()}
    path = _jar(name, code)
    jvm = session._jvm
    # Hadoop looks classes up where the session began; what SQL adds is for what begins later.
    loader = session._jsc.sc().hadoopConfiguration().getClassLoader()
    loader.addURL(jvm.java.io.File(path).toURI().toURL())
    if everywhere:
        session.sql("ADD JAR '{}'".format(path.replace("\\", "\\\\").replace("'", "\\'")))
    loader.loadClass(f"deltanb.{name}")
    return True


def _jar(name: str, code: dict[str, bytes]) -> str:
    """A temporary JAR of this process, which is served to executors."""
    folder = tempfile.mkdtemp(prefix="deltanb-jar-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = os.path.join(folder, f"deltanb-{name}.jar")
    with zipfile.ZipFile(path, "w") as jar:
        for of_class, content in code.items():
            jar.writestr(of_class.replace(".", "/") + ".class", content)
    return path


def _cooked(session: SparkSession, text: str) -> Any:
    compiler = session._jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setSourceVersion(JAVA_VERSION)
    compiler.setTargetVersion(JAVA_VERSION)
    compiler.setParentClassLoader(session._jsparkSession.getClass().getClassLoader())
    compiler.cook(text)
    return compiler


@cache
def source(name: str) -> str:
    """The Java source of a class, from the file beside this module."""
    return resources("deltanb.engines.spark").joinpath(f"{name}.java").read_text("utf-8")
