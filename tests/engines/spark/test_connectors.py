"""Which tables Spark's own file systems are asked for, and what they are told: all but secrets."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("obstore")

from deltanb.engines.spark import connectors
from deltanb.engines.spark.compiled import has_class, is_everywhere
from deltanb.engines.spark.connectors import ANONYMOUS, KEYS_BY_FILE, S3A, connector_for, refusals
from deltanb.errors import StorageError
from deltanb.options import StepClock, set_options
from deltanb.store.local import LocalStore
from deltanb.store.object import ObjectStore
from deltanb.store.vended import Vended, vended_store
from deltanb.store.vending import READ, READ_WRITE

KEYS = {"aws_access_key_id": "me", "aws_secret_access_key": "hush", "aws_session_token": "short-lived"}
ABFS = "org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem"
GCS = "org.apache.hadoop.fs.gs.GoogleHadoopFileSystem"
CLUSTER = "spark://far:7077"


class Session(SimpleNamespace):
    """A session with some classes on its path."""


def session(master: str = "local[2]", *missing: str, **conf: str) -> Any:
    settings = {name.replace("__", "."): value for name, value in conf.items()}
    return Session(conf={"spark.master": master, **settings}, lacks=missing)


@pytest.fixture(autouse=True)
def classes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "PROFILE", "REGION", "DEFAULT_REGION",
                 "ENDPOINT_URL", "ENDPOINT_URL_S3", "ENDPOINT"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.setattr(connectors, "has_class", lambda session, name: name not in session.lacks)


def test_keys_are_lent_in_a_file_and_each_access_has_a_scheme() -> None:
    options = {"aws_endpoint_url": "http://127.0.0.1:9", "aws_region": "eu-west-1", **KEYS}
    connector = connector_for(ObjectStore("s3://lake/a/t", options), session())
    assert connector is not None
    keys = Path(connector.options["fs.s3a.auth.profile.file"])
    assert keys.stat().st_mode & 0o777 == 0o600
    assert keys.read_text().splitlines() == [
        "[deltanb]", "aws_access_key_id = me", "aws_secret_access_key = hush",
        "aws_session_token = short-lived"]
    assert dict(connector.options) == {
        "fs.s3a.endpoint": "http://127.0.0.1:9", "fs.s3a.endpoint.region": "eu-west-1",
        "fs.s3a.connection.ssl.enabled": "false", "fs.s3a.path.style.access": "true",
        "fs.s3a.aws.credentials.provider": KEYS_BY_FILE, "fs.s3a.auth.profile.file": str(keys),
        "fs.s3a.auth.profile.name": "deltanb", "fs.s3a.performance.flags": "create,mkdir",
        f"fs.{connector.scheme}.impl": S3A}
    assert "hush" not in repr(connector) and "short-lived" not in repr(connector)
    assert connector.root == f"{connector.scheme}://lake/a/t"

    other = connector_for(ObjectStore("s3://lake/a/t", {**options, "aws_session_token": "newer"}), session())
    assert other is not None and other.scheme != connector.scheme, "Hadoop keeps a file system for a scheme"
    again = connector_for(ObjectStore("s3a://lake/b", options), session())
    assert again is not None and again.scheme == connector.scheme


def test_keys_that_a_catalog_vends_are_those_for_the_operation_and_have_a_scheme_of_their_own() -> None:
    asked = []

    def vend(operation: str) -> Vended:
        asked.append(operation)
        config = {"s3.access-key-id": f"{operation}-{len(asked)}", "s3.secret-access-key": "hush"}
        return Vended(config, clock.now + 1000)

    clock = StepClock(step=0)
    with set_options(clock=clock):
        store = vended_store("s3://lake/a/t", {"aws_region": "eu-west-1"}, vend)
        assert connector_for(store, session(CLUSTER)) is None and asked == []
        made = [connector_for(store, session(), operation) for operation in (READ, READ, READ_WRITE)]
        clock.advance(500)
        made.append(connector_for(store, session(), READ_WRITE))
    schemes, files = [], []
    for connector in made:
        assert connector is not None and "hush" not in repr(connector)
        assert connector.path_of(store, "1.parquet") == f"{connector.scheme}://lake/a/t/1.parquet"
        schemes.append(connector.scheme)
        files.append(Path(connector.options["fs.s3a.auth.profile.file"]).read_text().splitlines()[1])
    assert asked == [READ, READ_WRITE, READ_WRITE]
    assert files == [f"aws_access_key_id = {key}"
                     for key in ("READ-1", "READ-1", "READ_WRITE-2", "READ_WRITE-3")]
    assert len(set(schemes)) == 3
    assert connector_for(vended_store("gs://lake/t", None, lambda _: Vended({}, None)), session()) is None


def test_keys_of_the_environment_are_those_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    store = ObjectStore("s3://lake/t")
    plain = connector_for(store, session())
    assert plain is not None and (plain.root, plain.options) == ("s3a://lake/t", {})
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "me")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    connector = connector_for(store, session())
    assert connector is not None and connector.options["fs.s3a.aws.credentials.provider"] == KEYS_BY_FILE


def test_secrets_are_sent_to_no_other_machine() -> None:
    with_keys, none = ObjectStore("s3://lake/t", KEYS), ObjectStore("s3://lake/t",
                                                                    {"aws_region": "eu-west-1"})
    assert connector_for(with_keys, session(CLUSTER)) is None
    own = session(CLUSTER, spark__hadoop__fs__s3a__access__key="its own")
    connector = connector_for(with_keys, own)
    assert connector is not None and (connector.scheme, connector.options) == ("s3a", {})
    connector = connector_for(none, session(CLUSTER))
    assert connector is not None and connector.options["fs.s3a.endpoint.region"] == "eu-west-1"
    assert "fs.s3a.aws.credentials.provider" not in connector.options


@pytest.mark.parametrize("uri, options, lacks", [
    ("s3://lake/t", KEYS, [S3A]),
    ("s3://lake/t", KEYS, [KEYS_BY_FILE]),
    ("s3://lake/t", {**KEYS, "aws_access_key_id": "two words"}, []),
    ("s3://lake/t", {"aws_role_arn": "arn:aws:iam::1:role/x"}, []),
    ("s3://lake/t", {**KEYS, "aws_sse_kms_key_id": "x"}, []),
    ("s3://lake/t", {**KEYS, "aws_server_side_encryption": "aws:kms"}, []),
    ("s3://lake/t", {**KEYS, "proxy_url": "http://127.0.0.1:3"}, []),
    ("s3://lake/t", {**KEYS, "allow_invalid_certificates": "true"}, []),
    ("abfss://c@nyc.dfs.core.windows.net/t", {"azure_storage_account_key": "aHVzaA=="}, []),
    ("abfss://c@nyc.dfs.core.windows.net/t", {}, [ABFS]),
    ("gs://lake/t", {"google_skip_signature": "true"}, []),
])
def test_what_cannot_be_said_leaves_a_table_to_executors(
    uri: str, options: dict[str, str], lacks: list[str]
) -> None:
    assert connector_for(ObjectStore(uri, options), session("local[2]", *lacks)) is None


@pytest.mark.parametrize("uri, options, root", [
    ("abfss://c@nyc.dfs.core.windows.net/a/t", {}, "abfss://c@nyc.dfs.core.windows.net/a/t"),
    ("az://c/t", {"azure_storage_account_name": "nyc", "timeout": "10s"}, "abfss://c@nyc.dfs.core.windows.net/t"),
    ("gs://lake/t", {}, "gs://lake/t"),
])
def test_other_services_are_used_as_the_session_has_them(
    uri: str, options: dict[str, str], root: str
) -> None:
    connector = connector_for(ObjectStore(uri, options), session(CLUSTER))
    assert connector is not None and (connector.root, connector.options) == (root, {})


def test_requests_without_a_signature_and_hosts_by_bucket() -> None:
    connector = connector_for(ObjectStore("s3://open/t", {
        "skip_signature": True, "aws_virtual_hosted_style_request": True, "request_payer": True,
        "aws_endpoint_url": "https://s3.example.org", "max_retries": 1}), session(CLUSTER))
    assert connector is not None
    assert connector.options["fs.s3a.aws.credentials.provider"] == ANONYMOUS
    assert connector.options["fs.s3a.path.style.access"] == "false"
    assert connector.options["fs.s3a.connection.ssl.enabled"] == "true"
    assert connector.options["fs.s3a.requester.pays.enabled"] == "true"
    assert connector.options["fs.s3a.endpoint.region"] == "us-east-1"


def test_files_elsewhere_and_names_that_hadoop_cannot_say_are_none_of_its() -> None:
    store = ObjectStore("s3://lake/t", KEYS)
    connector = connector_for(store, session())
    assert connector is not None
    assert connector.path_of(store, "p=a b/1%.parquet") == f"{connector.scheme}://lake/t/p=a b/1%.parquet"
    sibling = store.sibling("s3://lake/other")
    assert sibling is not None and connector.path_of(sibling, "1.parquet") == f"{connector.scheme}://lake/other/1.parquet"
    for other, name in ((store, "a//b.parquet"), (ObjectStore("s3://pond/t", KEYS), "1.parquet"),
                        (ObjectStore("s3://lake/t"), "1.parquet"), (LocalStore("/lake/t"), "1.parquet")):
        assert connector.path_of(other, name) is None


def test_a_table_on_a_disk_and_a_server_have_none(tmp_path: Path) -> None:
    assert connector_for(LocalStore(tmp_path), session()) is None
    remote = type("Session", (SimpleNamespace,), {"__module__": "pyspark.sql.connect.session"})(conf={})
    assert connector_for(ObjectStore("s3://lake/t", KEYS), remote) is None
    assert not is_everywhere(remote, "InPlaceCommitter") and not has_class(remote, S3A)


@pytest.mark.parametrize("message, expected", [
    (": java.nio.file.AccessDeniedException: s3a-1://lake/t: org.apache.hadoop.fs.s3a.auth."
     "NoAuthWithAWSException: No AWS Credentials provided", "has no credentials"),
    (": org.apache.spark.SparkException: [TASK_WRITE_FAILED]\n\tat x\nCaused by: java.nio.file."
     "AccessDeniedException: s3a-1://lake/t: S3Exception: (Status Code: 403)", "credentials are refused"),
    (": org.apache.hadoop.fs.s3a.UnknownStoreException: `s3a://lake/t`: gone", "no such bucket"),
    (": java.lang.NoSuchMethodError: 'void org.apache.hadoop.x()'", "jars do not fit"),
    (": org.apache.spark.SparkException: x\nCaused by: java.net.ConnectException: refused",
     "ConnectException: refused"),
])
def test_what_a_file_system_says_is_told_as_by_a_store(
    message: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Failed(Exception):
        """As Py4J raises what Java did."""

    monkeypatch.setattr(connectors, "Py4JJavaError", Failed)
    with pytest.raises(StorageError, match=expected) as caught, refusals("s3://lake/t/part-1"):
        raise Failed(f"An error occurred while calling o1.parquet.\n{message}\n\tat somewhere")
    assert caught.value.path == "s3://lake/t/part-1"  # type: ignore[attr-defined]
    with pytest.raises(Failed), refusals("s3://lake/t/part-1"):
        raise Failed("An error occurred.\n: org.apache.spark.SparkException: Job aborted.")


@pytest.mark.spark
@pytest.mark.classic("a server's class path is its own")
def test_hadoop_says_which_file_systems_a_session_has(spark: Any) -> None:
    assert has_class(spark, "org.apache.hadoop.fs.LocalFileSystem")
    assert not has_class(spark, "org.nowhere.FileSystem")
    assert is_everywhere(spark, "InPlaceCommitter") and has_class(spark, "deltanb.InPlaceCommitter")
