"""Arguments of a session: which go together, and what becomes of a session that runs already."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")

from deltanb.engines.spark import session as sessions
from deltanb.engines.spark.session_request import request_session
from deltanb.errors import IllegalStateError, InvalidArgument
from tests.patience import PATIENCE

HADOOP = "org.apache.hadoop:hadoop-aws:3.5.0"


@pytest.fixture(autouse=True)
def no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_REMOTE", raising=False)


@pytest.mark.parametrize("packages", [
    f"{HADOOP},a:b:1", f" {HADOOP} , a:b:1,", [HADOOP, "a:b:1"], (HADOOP, "a:b:1", HADOOP)])
def test_packages_are_a_sequence_or_a_text_with_commas(packages: Any) -> None:
    assert request_session(None, None, packages, None).packages == (HADOOP, "a:b:1")


@pytest.mark.parametrize("config, asked", [
    ({"spark.jars.packages": HADOOP}, (None, None, (HADOOP,))),
    ({"spark.master": "local[3]"}, (None, "local[3]", ())),
    ({"spark.remote": "sc://host"}, ("sc://host", None, ())),
])
def test_what_config_says_of_them_counts(config: dict[str, str], asked: tuple[Any, ...]) -> None:
    request = request_session(None, None, None, config)
    assert (request.remote, request.master, request.packages) == asked
    assert request.config == {}


@pytest.mark.parametrize("arguments, pattern", [
    (("sc://host", "local[2]", None, None), "has its own master.*give one of the two"),
    (("sc://host", None, HADOOP, None), f"start it with --packages {HADOOP}"),
    (("sc://host", None, None, {"spark.remote": "sc://other"}), "contradict each other"),
    ((None, "local[2]", None, {"spark.master": "local[3]"}), "contradict each other"),
    ((None, None, HADOOP, {"spark.jars.packages": HADOOP}), "twice"),
    ((None, None, "a:b:1,a:b:2", None), "a:b as 1 and as 2"),
    ((None, None, "hadoop-aws", None), "group:artifact:version"),
    ((None, None, ["a:b:1:jar"], None), "group:artifact:version"),
    ((None, None, [7], None), "group:artifact:version"),
    ((None, "localhost", None, None), "not a Spark master"),
    ((None, "sc://host", None, None), "given as remote="),
    ((None, "", None, None), "leave it out"),
    (("spark://host:7077", None, None, None), "sc://host"),
    ((None, None, None, ["spark.master"]), "a dict of Spark settings"),
    ((None, None, None, {"spark.x": None}), "spark.x"),
    ((None, None, None, None, "yes"), "ui is True or False"),
    ((None, None, None, {"spark.ui.enabled": True}, False), "ui=False and config=.*contradict each other"),
    (("sc://host", None, None, None, True), "a web UI of its own"),
])
def test_arguments_that_contradict_one_another_are_refused(arguments: Any, pattern: str) -> None:
    with pytest.raises(InvalidArgument, match=pattern):
        request_session(*arguments)


@pytest.mark.parametrize("master, packages", [("local[2]", None), (None, HADOOP)])
def test_the_address_of_the_environment_is_named_where_it_contradicts(
    monkeypatch: pytest.MonkeyPatch, master: str | None, packages: str | None
) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://host")
    with pytest.raises(InvalidArgument, match="SPARK_REMOTE='sc://host' of the environment"):
        request_session(None, master, packages, None)


def test_a_token_of_an_address_is_not_told() -> None:
    with pytest.raises(InvalidArgument) as caught:
        request_session("sc://host/;token=hush", "local[2]", None, None)
    assert "hush" not in str(caught.value)


class Conf(dict[str, str]):
    """Settings of a session; a static one cannot be set."""

    def set(self, key: str, value: str) -> None:
        if key == "spark.static":
            from pyspark.errors import PySparkException

            raise PySparkException("[CANNOT_MODIFY_STATIC_CONFIG] no\nmore")
        self[key] = value


class Local(SimpleNamespace):
    """A local session."""


def local(**conf: str) -> Any:
    packages = {"spark.jars.packages": f"x:y:1,{HADOOP}"}
    return Local(conf=Conf({"spark.master": "local[2]", **packages, "mine": "1", **conf}))


def remote(endpoint: str) -> Any:
    made = type("Session", (SimpleNamespace,), {"__module__": "pyspark.sql.connect.session"})
    client = SimpleNamespace(_builder=SimpleNamespace(endpoint=endpoint))
    return made(conf=Conf(mine="1"), client=client)


@pytest.mark.parametrize("running, arguments", [
    (local(), (None, None, None, {"mine": 1})),
    (local(), (None, "local[2]", HADOOP, None)),
    (remote("localhost:15002"), ("sc://localhost", None, None, None)),
    (remote("localhost:15002"), ("sc://127.0.0.1:15002/;user_id=x", None, None, None)),
])
def test_a_session_that_runs_and_is_as_asked_for_is_left_alone(running: Any, arguments: Any) -> None:
    before = dict(running.conf)
    request_session(*arguments).must_be(running, is_ours=False)
    assert dict(running.conf) == before


@pytest.mark.parametrize("running, arguments, pattern", [
    (local(), (None, "local[3]", None, None), r"the master local\[2\].*Call .stop\(\).*leave master out"),
    (local(), (None, None, "z:z:1", None), "without z:z:1.*leave packages out"),
    (local(), ("sc://host", None, None, None), "sc://host cannot be joined"),
    (remote("host:15002"), (None, "local[2]", None, None), "Connect server at host:15002"),
    (remote("host:15002"), (None, None, HADOOP, None), "leave packages out"),
    (remote("host:15002"), ("sc://other", None, None, None), "Connect server at host:15002"),
    (remote("host:15002"), ("sc://host:9", None, None, None), "Connect server at host:15002"),
])
def test_another_session_than_the_one_that_runs_is_refused(running: Any, arguments: Any,
        pattern: str) -> None:
    with pytest.raises(IllegalStateError, match=pattern):
        request_session(*arguments).must_be(running, is_ours=True)


def test_settings_are_those_of_whoever_started_the_session() -> None:
    asked = request_session(None, None, None, {"mine": "2", "flag": True})
    theirs, ours = local(), local()
    with pytest.raises(IllegalStateError, match="mine='1'.*'mine': '2'.*not applied"):
        asked.must_be(theirs, is_ours=False)
    assert theirs.conf["mine"] == "1"
    asked.must_be(ours, is_ours=True)
    assert (ours.conf["mine"], ours.conf["flag"]) == ("2", "true")


def test_what_is_set_at_the_start_cannot_be_set_later() -> None:
    with pytest.raises(IllegalStateError, match="spark.static is set when one starts"):
        request_session(None, None, None, {"spark.static": "2"}).must_be(local(), is_ours=True)


def test_a_cluster_is_told_where_the_driver_is_only_if_it_is_this_machine() -> None:
    def settings_of(master: str) -> dict[str, str]:
        return sessions._local(request_session(None, master, None, None))

    assert settings_of("local[5]")["spark.master"] == "local[5]"
    assert settings_of("local[5]")["spark.driver.host"] == "127.0.0.1"
    beside, far = settings_of("spark://127.0.0.1:7077"), settings_of("spark://far:7077")
    assert beside["spark.driver.host"] == "127.0.0.1"
    assert not {"spark.driver.host", "spark.driver.bindAddress"} & far.keys()
    assert "spark.sql.shuffle.partitions" not in {**beside, **far}


@pytest.mark.parametrize(("config", "ui", "asked"), [
    (None, None, None), (None, True, True), (None, False, False), ({"spark.ui.enabled": True}, None, True),
    ({"spark.ui.enabled": "false"}, None, False), ({"spark.ui.enabled": True}, True, True)])
def test_a_web_ui_is_shown_where_it_is_asked_for(config: Any, ui: Any, asked: bool | None) -> None:
    request = request_session(None, None, None, config, ui)
    assert (request.ui, request.config) == (asked, {})
    assert sessions._local(request)["spark.ui.enabled"] == str(bool(asked)).lower()


@pytest.mark.parametrize("has", ["true", "false"])
def test_a_session_that_runs_has_a_web_ui_or_has_none(has: str) -> None:
    running = local(**{"spark.ui.enabled": has})
    request_session(None, None, None, None).must_be(running, is_ours=True)
    request_session(None, None, None, None, has == "true").must_be(running, is_ours=True)
    with pytest.raises(IllegalStateError, match=r"a web UI, and ui=(True|False) asks for another.*stop\(\)"):
        request_session(None, None, None, None, has != "true").must_be(running, is_ours=True)


WITH_UI = """
import json, sys, urllib.request
import deltanb as dn
session = dn.spark(master="local[1]", ui=True, config={"spark.ui.port": 0})
assert dn.spark() is session and dn.spark(ui=True) is session
url = session.sparkContext.uiWebUrl
with urllib.request.urlopen(f"{url}/api/v1/applications") as answer:
    assert json.load(answer)[0]["name"] == "deltanb"
port = int(url.rpartition(":")[2])
listens = [line.split()[1] for name in ("tcp", "tcp6") for line in open(f"/proc/net/{name}").readlines()[1:]
           if line.split()[3] == "0A" and int(line.split()[1].rpartition(":")[2], 16) == port]
assert listens, url
assert all(one.startswith(("0100007F:", "0000000000000000FFFF00000100007F:")) for one in listens), listens
session.stop()
print("done")
"""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="reads /proc")
def test_a_web_ui_is_open_to_this_machine_alone() -> None:
    done = subprocess.run([sys.executable, "-c", WITH_UI], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stderr


FOREIGN = """
import sys
from pyspark.sql import SparkSession
import deltanb as dn
from deltanb.engines.spark import session as sessions
with sessions._environment(JAVA_HOME=str(sessions.java_home())):
    theirs = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
before = dict(theirs.conf.getAll)
assert dn.spark() is theirs and dn.spark(master="local[1]") is theirs
for arguments in ({"config": {"spark.sql.shuffle.partitions": 3}}, {"master": "local[2]"},
                  {"packages": "a:b:1"}):
    try:
        dn.spark(**arguments)
    except dn.errors.IllegalStateError as error:
        assert "stop()" in str(error)
    else:
        raise SystemExit(f"{arguments} were taken")
assert dict(theirs.conf.getAll) == before
theirs.stop()
print("-- from here on in silence", file=sys.stderr, flush=True)
ours = dn.spark(master="local[1]", packages=["org.example:probe:1.0"], config={"spark.jars.ivySettings": IVY,
    "spark.jars.ivy": FOLDER})
assert "org.example_probe-1.0.jar" in ours.conf.get("spark.jars"), ours.conf.get("spark.jars")
assert dn.spark(config={"spark.sql.shuffle.partitions": 3}) is ours
assert ours.conf.get("spark.sql.shuffle.partitions") == "3"
ours.stop()
try:
    dn.spark(packages="org.example:probe:2.0", config={"spark.jars.ivySettings": IVY,
        "spark.jars.ivy": FOLDER})
except dn.errors.MissingDependency as error:
    assert "no registry has org.example:probe:2.0" in str(error), error
else:
    raise SystemExit("a package came from nowhere")
print("done")
"""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.classic("a session of this machine is started, in a process of its own")
def test_real_sessions_are_reused_kept_as_they_are_and_brought_packages_in_silence(tmp_path: Path) -> None:
    place = tmp_path / "repository" / "org" / "example" / "probe" / "1.0"
    place.mkdir(parents=True)
    (place / "probe-1.0.pom").write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId>"
        "<artifactId>probe</artifactId><version>1.0</version></project>")
    with zipfile.ZipFile(place / "probe-1.0.jar", "w") as jar:
        jar.writestr("probe.txt", "here")
    ivy = tmp_path / "ivy.xml"
    ivy.write_text(
        '<ivysettings><settings defaultResolver="folder"/><resolvers><ibiblio name="folder" '
        f'm2compatible="true" root="{(tmp_path / "repository").as_uri()}"/></resolvers></ivysettings>')
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[3]),
                   "SPARK_LOCAL_DIRS": str(tmp_path), "SPARK_LOCAL_IP": "127.0.0.1"}
    script = f"IVY, FOLDER = {str(ivy)!r}, {str(tmp_path / 'ivy')!r}\n{FOREIGN}"

    run = subprocess.run([sys.executable, "-c", script], env=environment, cwd=tmp_path, capture_output=True,
                         text=True, check=False)
    assert (run.returncode, run.stdout) == (0, "done\n"), run.stderr
    assert run.stderr.rpartition("-- from here on in silence\n")[2] == ""
