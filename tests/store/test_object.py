"""Buckets: URIs, options and their secrets, what a service answers, and files that are read and written."""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltanb as dn
from deltanb.errors import DeltaError, InvalidArgument, MissingDependency, StorageError, TableNotFound
from deltanb.store import bucket as requests
from deltanb.store import object_files, uris
from deltanb.store.answers import storage_error
from deltanb.store.object import ObjectStore
from deltanb.store.object_files import AHEAD, PART_SIZE
from deltanb.testing.s3_server import ACCESS, Request, S3Server
from deltanb.transaction.delta_log import identity_of
from tests.helpers import exactly_one_wins
from tests.patience import PATIENCE

pytest.importorskip("obstore")
SECRET = ACCESS["aws_secret_access_key"]


@pytest.fixture
def store(s3_server: S3Server, bucket: str) -> ObjectStore:
    return ObjectStore(f"{bucket}/table", {**s3_server.options, "max_retries": 1,
                                           "backoff_config.init_backoff": "1ms"})


# -- URIs and options ---------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "root"), [
    ("s3://lake/t", "s3://lake/t"), ("S3A://lake/t/", "s3://lake/t"), ("s3n://lake//a/../t", "s3://lake/t"),
    ("s3://lake", "s3://lake"), ("gs://lake/a b%20ü", "gs://lake/a b%20ü"), ("az://lake/t", "az://lake/t"),
    ("abfss://lake@nyc.dfs.core.windows.net/t", "abfss://lake@nyc.dfs.core.windows.net/t"),
])
def test_a_uri_is_told_in_one_way(text: str, root: str) -> None:
    assert uris.is_served(text)
    assert uris.parse(text).root == root


@pytest.mark.parametrize("text", [
    "s3:///t", "s3://", "s3://me:secret@lake/t", "s3://lake/t?X-Amz-Signature=secret", "abfss://lake@nyc/t",
    "az://me:secret@lake/t", "s3://../t", "s3://lake--use1-az4--x-s3/t",
])
def test_a_uri_without_a_bucket_or_with_credentials_is_refused_without_showing_them(text: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        dn.open(text)
    assert "secret" not in str(caught.value) + str(caught.value.data)


def test_one_place_has_one_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    region = {"aws_region": "eu-west-1"}
    same = [identity_of(ObjectStore(uri, region)) for uri in ("s3a://lake/t/", "s3://lake//t")]
    assert same[0] == same[1]
    assert identity_of(ObjectStore("az://lake/t", {"azure_storage_account_name": "nyc"})) == identity_of(
        ObjectStore("abfss://lake@nyc.dfs.core.windows.net/t"))
    others = {identity_of(ObjectStore(uri, options)) for uri, options in [
        ("s3://lake/t", region), ("s3://lake/u", region), ("s3://pond/t", region),
        ("s3://lake/t", {"aws_endpoint_url": "https://minio"}), ("gs://lake/t", None),
        ("abfss://lake@nyc.dfs.core.windows.net/t", None), ("abfss://lake@sfo.dfs.core.windows.net/t", None)]}
    assert len(others) == 7
    assert dn.DeltaLog.for_table("s3a://lake/t/", region) is dn.DeltaLog.for_table("s3://lake/t", region)


@pytest.mark.parametrize(("options", "words"), [
    ({"aws_regoin": "x"}, "did you mean 'region'"), ({"AWS_REGION": "x", "region": "y"}, "twice"),
    ({"AWS_S3_ALLOW_UNSAFE_RENAME": "true"}, "Leave it out"), ({"aws_s3_locking_provider": "x"}, "Leave"),
    ({"aws_region": None}, "is a string"), ({"aws_region": ""}, "an empty one"), ({1: "x"}, "are strings"),
    ({"retry_timeout": "soon"}, "not a time"), ({"max_retries": "-1"}, "is a number"),
    ({"aws_endpoint_url": "https://me:hush@host"}, "credentials"), ("region=x", "is a dict"),
    ({"azure_storage_account_name": "nyc"}, "no storage option"),
])
def test_options_that_are_not_known_are_refused(options: Any, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words) as caught:
        ObjectStore("s3://lake/t", options)
    assert "hush" not in str(caught.value)


def test_options_belong_to_buckets(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="those of a bucket"):
        dn.open(tmp_path, storage_options={"aws_region": "x"})
    with pytest.raises(InvalidArgument, match="a store already"):
        dn.open(ObjectStore("s3://lake/t"), storage_options={"aws_region": "x"})
    with pytest.raises(InvalidArgument, match="names no account"):
        ObjectStore("az://lake/t", {"azure_storage_account_key": "a2V5"})
    with pytest.raises(InvalidArgument, match="leave account_name out"):
        ObjectStore("abfss://lake@nyc.dfs.core.windows.net/t", {"azure_storage_account_name": "sfo"})


def test_without_obstore_the_error_says_what_to_install(tmp_path: Path) -> None:
    script = ("import sys; sys.modules['obstore'] = None\n"
              "import deltanb as dn\n"
              "try: dn.open('s3://lake/t')\n"
              "except dn.errors.MissingDependency as error: print(error, error.extra)")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert 'pip install "deltanb[object-store]" object-store' in done.stdout
    assert issubclass(MissingDependency, ImportError)


# -- secrets ------------------------------------------------------------------------------------


def test_secrets_are_nowhere_to_be_seen(
    s3_server: S3Server, bucket: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    table = dn.create(f"{bucket}/t", {"id": [1]}, storage_options=s3_server.options)
    store = table.log.store
    denied = []
    with s3_server.failing(lambda request: "403"), pytest.raises(DeltaError) as caught:
        table.append({"id": [2]})
    denied.append(caught.value)
    seen = [repr(store), str(store), repr(table), str(table), str(table.history()), table.name, table.path,
            repr(store.access), caplog.text, str(vars(store)), *map(str, denied),  # type: ignore[attr-defined]
            *(str(vars(error)) for error in denied)]
    for status in store.list_all(""):
        if status.name.endswith((".json", ".crc")):
            seen.append(store.read(status.name).decode())
    seen.append(str(pickle.dumps(table)) + str(pickle.dumps(store)))
    assert not [text for text in seen if SECRET in text or "tester" in text]


def test_a_pickled_table_finds_its_secrets_again(s3_server: S3Server, bucket: str, tmp_path: Path) -> None:
    table = dn.create(f"{bucket}/t", {"id": [1, 2]}, storage_options=s3_server.options)
    again = pickle.loads(pickle.dumps(table))
    assert again.log is table.log
    assert again.count() == 2
    (tmp_path / "table").write_bytes(pickle.dumps(table))
    script = ("import pickle, sys, deltanb\n"
              "try: print(pickle.load(open(sys.argv[1], 'rb')).count())\n"
              "except deltanb.errors.DeltaError as error: print(error)")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}

    def elsewhere(**more: str) -> str:
        return subprocess.run([sys.executable, "-c", script, str(tmp_path / "table")], text=True, check=True,
                              capture_output=True, env={**environment, **more}).stdout.strip()

    assert elsewhere(AWS_ACCESS_KEY_ID="tester", AWS_SECRET_ACCESS_KEY=SECRET) == "2"
    message = elsewhere(AWS_METADATA_ENDPOINT="http://127.0.0.1:1")
    assert any(words in message for words in ("stay in the process", "no credentials", "cannot be reached"))


def test_another_makers_credentials_make_another_log(s3_server: S3Server, bucket: str) -> None:
    table = dn.create(f"{bucket}/t", {"id": [1]}, storage_options=s3_server.options)
    same = dn.open(f"{bucket}/t/", storage_options={**s3_server.options})
    assert same.log is table.log
    other = dn.open(f"{bucket}/t", storage_options={**s3_server.options, "aws_access_key_id": "somebody"})
    assert other.log is not table.log
    assert identity_of(other.log.store) == identity_of(table.log.store)


def test_what_the_environment_says_counts_from_then_on(
    s3_server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dn.create(f"{bucket}/t", {"id": [1]}, storage_options=s3_server.options)
    for name, value in s3_server.options.items():
        if name != "aws_allow_http":
            monkeypatch.setenv(name.upper(), value)
    monkeypatch.delenv("AWS_ALLOW_HTTP", raising=False)
    store = ObjectStore(f"{bucket}/t")
    with pytest.raises(StorageError, match="allow_http"):
        store.list_names("_delta_log/")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    assert store.list_names("_delta_log/")
    assert dn.open(f"{bucket}/t").count() == 1


def test_a_profile_gives_the_credentials(
    s3_server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("boto3")
    file = tmp_path / "credentials"
    file.write_text("[night]\naws_access_key_id = of-the-night\naws_secret_access_key = hush\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_PROFILE", "night")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    options = {name: value for name, value in s3_server.options.items() if "key" not in name}
    with s3_server.counted() as seen:
        assert ObjectStore(f"{bucket}/t", options).list_names("a") == []
    assert "Credential=of-the-night/" in seen[0].headers["authorization"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
def test_a_forked_process_is_told_and_does_not_hang(s3_server: S3Server, bucket: str) -> None:
    script = ("import os, sys, deltanb as dn\n"
              "uri, pairs = sys.argv[1], dict(pair.split('=', 1) for pair in sys.argv[2:])\n"
              "table = dn.open(uri, storage_options=pairs)\n"
              "if os.fork() == 0:\n"
              "    try: table.count()\n"
              "    except dn.errors.IllegalStateError as error: print(error, flush=True)\n"
              "    os._exit(0)\n"
              "os.wait()\n"
              "print(table.count())\n")
    dn.create(f"{bucket}/t", {"id": [1]}, storage_options=s3_server.options)
    pairs = [f"{name}={value}" for name, value in s3_server.options.items()]
    done = subprocess.run([sys.executable, "-c", script, f"{bucket}/t", *pairs], capture_output=True,
                          text=True, timeout=PATIENCE)
    assert "get_context('spawn')" in done.stdout
    assert done.stdout.endswith("\n1\n"), done.stderr


# -- answers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fault", "status", "words"), [
    ("403", 403, "denies access"), ("429", 429, "slow down"), ("503", 503, "slow down"),
    ("500", 500, "failed"), ("400", 400, "refused the request"), ("lost", None, "cannot be reached"),
])
@pytest.mark.parametrize("call", ["read", "status", "list_from", "put", "delete", "open_input"])
def test_every_answer_is_told_apart_and_names_the_key(
    s3_server: S3Server, store: ObjectStore, fault: str, status: int | None, words: str, call: str
) -> None:
    work = getattr(store, call)
    with s3_server.failing(lambda request: fault), pytest.raises(StorageError, match=words) as caught:
        work("a/b.json", b"x") if call == "put" else work("a/b.json")
    assert caught.value.status == status
    assert f"{store.root}/a" in str(caught.value)
    assert caught.value.__suppress_context__, "obstore's own text stays out of tracebacks"


def test_a_bucket_that_is_not_there_is_named(s3_server: S3Server) -> None:
    for work in (lambda: dn.open("s3://nowhere/t", storage_options=s3_server.options),
                 lambda: dn.create("s3://nowhere/t", {"id": [1]}, storage_options=s3_server.options)):
        with pytest.raises(StorageError, match="no bucket 'nowhere'"):
            work()


def test_a_table_that_is_not_there(s3_server: S3Server, bucket: str) -> None:
    with pytest.raises(TableNotFound, match=f"{bucket}/t"):
        dn.open(f"{bucket}/t", storage_options=s3_server.options)
    assert not dn.DeltaTable.is_delta_table(f"{bucket}/t", s3_server.options)


RECORDED = [
    ("s3://lake/t", "Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token in 7.1s, "
     "after 4 retries, max_retries: 4, retry_timeout: 30s - HTTP error: error sending request", None,
     "no credentials for S3 were found"),
    ("gs://lake/t", "Generic GCS error: Error performing token request: Error performing GET "
     "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/token in 3s - "
     "HTTP error: error sending request", None, "GOOGLE_SERVICE_ACCOUNT"),
    ("abfss://lake@nyc.dfs.core.windows.net/t", "Generic MicrosoftAzure error: Error performing GET "
     "https://nyc.blob.core.windows.net/lake?restype=container&sv=2022&sig=hush in 1s - Server returned "
     "non-2xx status code: 403 Forbidden: <Error><Code>AuthenticationFailed</Code><Message>hush", 403,
     "denies access (403 AuthenticationFailed)"),
    ("abfss://lake@nyc.dfs.core.windows.net/t", "Server returned non-2xx status code: 404 Not Found: "
     "<Error><Code>ContainerNotFound</Code></Error>", 404, "has no bucket 'lake'"),
    ("s3://lake/t", "something new at https://lake.s3.amazonaws.com/t?X-Amz-Signature=hush, "
     "Authorization: AWS4-HMAC-SHA256 Credential=hush", None, "something new"),
]


RECORDED += [
    ("s3://lake/t", f"status code: {status}: <Error><Code>{code}</Code><Message>hush</Message></Error>",
     status, f"the token for S3 has expired ({status} {code}). Get a new one")
    for status, code in ((400, "ExpiredToken"), (403, "ExpiredToken"), (400, "TokenRefreshRequired"),
                         (403, "RequestExpired"))
] + [
    ("abfss://lake@nyc.dfs.core.windows.net/t", "status code: 403 Forbidden: <Error>"
     "<Code>AuthenticationFailed</Code><AuthenticationErrorDetail>Signature not valid in the specified time "
     "frame: hush", 403, "the token for Azure Storage has expired"),
    ("s3://lake/t", "status code: 400 Bad Request: <Error><Code>AuthorizationHeaderMalformed</Code>"
     "<Message>the region 'us-east-1' is wrong; expecting 'eu-west-1'</Message><Region>eu-west-1</Region>"
     "</Error>", 400, "the region is wrong: S3 keeps 'lake' in eu-west-1 (400 AuthorizationHeaderMalformed). "
     "Give it as storage_options={'aws_region': 'eu-west-1'}"),
    ("s3://lake/t", "Received redirect without LOCATION, this normally indicates an incorrectly "
     "configured region", None, "the region is wrong: S3 keeps 'lake' in another one. Give it as"),
    ("s3://lake/t", "status code: 403 Forbidden: <Error><Code>RequestTimeTooSkewed</Code></Error>", 403,
     "Set the clock"),
    ("s3://lake/t", "GET https://s3.example in 2ms - HTTP error: error sending request\nDebug source: kind: "
     "InvalidData, error: InvalidCertificate(\n    Expired,", None, "cannot be trusted: it has expired"),
]


@pytest.mark.parametrize(("uri", "text", "status", "words"), RECORDED)
def test_recorded_answers_are_told_without_what_was_signed(
    uri: str, text: str, status: int | None, words: str
) -> None:
    error = storage_error(RuntimeError(text), "read", uris.parse(uri), "t/_delta_log/x")
    assert words in str(error)
    assert str(error).startswith(f"{uri}/_delta_log/x cannot be read: ")
    assert error.status == status
    assert "hush" not in str(error) + str(error.data)


@pytest.mark.parametrize(("fault", "is_certain"), [
    ("403", True), ("400", True), ("501", True), ("503", False), ("429", False), ("500", False),
    ("lost", False), ("late 500", False),
])
def test_a_put_says_whether_it_is_certain_that_nothing_was_written(
    s3_server: S3Server, store: ObjectStore, fault: str, is_certain: bool
) -> None:
    store.put_if_absent("first", b"1")
    broken: list[str] = []

    def once(request: Request) -> str | None:
        broken.append(request.key)
        return fault

    alone = ObjectStore(store.root, {**s3_server.options, "max_retries": 0})
    with s3_server.failing(once), pytest.raises(OSError) as caught:
        alone.put_if_absent("a", b"1")
    assert isinstance(caught.value, StorageError) is is_certain
    assert len(broken) == 1
    if fault in ("lost", "late 500"):
        assert store.read("a") == b"1", "nobody was told, and it is there"
    else:
        assert store.status("a") is None


def test_a_refusal_of_what_was_sent_before_leaves_open_whether_it_was_written(
    s3_server: S3Server, store: ObjectStore
) -> None:
    store.put_if_absent("first", b"1")
    faults = iter(["late 500", "403"])
    with s3_server.failing(lambda request: next(faults, None)), pytest.raises(OSError, match="403") as caught:
        store.put_if_absent("a", b"1")
    assert not isinstance(caught.value, StorageError)
    assert store.read("a") == b"1"


def test_an_answer_that_is_lost_once_is_an_object_that_exists(
    s3_server: S3Server, store: ObjectStore
) -> None:
    store.put_if_absent("first", b"1")
    faults = iter(["lost"])
    with s3_server.failing(lambda request: next(faults, None)):
        assert store.put_if_absent("a", b"mine") is False
    assert store.read("a") == b"mine"
    assert not store.is_final


def test_a_body_that_breaks_off_is_read_again(s3_server: S3Server, store: ObjectStore) -> None:
    store.put("a", b"0123456789" * 100)
    for work in (lambda: store.read("a"), lambda: store.list_names(""),
                 lambda: [one.name for one in store.list_all("")]):
        faults = iter(["cut", "cut"])
        with s3_server.failing(lambda request: next(faults, None)):  # noqa: B023
            assert work() in (b"0123456789" * 100, ["a"])
    with s3_server.failing(lambda request: "cut"), pytest.raises(StorageError, match="broke off"):
        store.read("a")


def test_a_service_that_ignores_the_condition_is_refused_for_writing_and_read(
    s3_server: S3Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "_proven", set())
    dn.create(f"{bucket}/t", {"id": [1]}, storage_options=s3_server.options)
    monkeypatch.setattr(requests, "_proven", set())
    table = dn.open(f"{bucket}/t", storage_options=s3_server.options)
    before = [status.name for status in table.log.store.list_all("")]

    def deaf(request: Request) -> str | None:
        return "deaf" if request.is_create else None

    with s3_server.failing(deaf), pytest.raises(StorageError, match="does not know|ignores conditional puts"):
        table.append({"id": [2]})
    with s3_server.failing(lambda request: "501" if request.is_create else None), pytest.raises(
            StorageError, match="refuses conditional puts"):
        table.append({"id": [2]})
    assert [status.name for status in table.log.store.list_all("")] == before, "nothing is left behind"
    assert table.count() == 1
    table.append({"id": [2]})
    assert table.count() == 2


# -- races --------------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_of_sixteen_puts_of_one_key_exactly_one_wins(store: ObjectStore, times: int) -> None:
    switch = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        exactly_one_wins(store, times)
    finally:
        sys.setswitchinterval(switch)


# -- names and files ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["p=a%20b/x y", "ü/ñ.json", "a+b&c=d?e#f", "p=a:b/'q'", "a%2Fb", ".hidden/_x"])
def test_names_come_back_as_they_were(store: ObjectStore, name: str) -> None:
    assert store.put_if_absent(name, b"1")
    assert store.read(name) == b"1"
    assert [status.name for status in store.list_all("")] == [name]
    status = store.status(name)
    assert status == store.list_from(name)[0]
    store.delete(name)
    assert store.status(name) is None


@pytest.mark.parametrize("name", ["", "a//b", "a/../b", "./a", "a\0b"])
def test_names_that_no_object_can_have(store: ObjectStore, name: str) -> None:
    assert store.status(name) is None
    with pytest.raises(FileNotFoundError):
        store.read(name)


@pytest.mark.parametrize("size", [0, 1, AHEAD, AHEAD + 1, 2 * PART_SIZE + 5])
def test_files_of_any_size_are_written_and_read_by_ranges(
    s3_server: S3Server, store: ObjectStore, size: int
) -> None:
    data = (b"0123456789abcde" * (size // 15 + 1))[:size]
    with s3_server.counted() as seen, store.open_output("p=1/f") as out:
        out.write(data[:size // 3])
        out.write(data[size // 3:])
        assert out.tell() == size
    assert (len(seen) == 1) is (size < PART_SIZE), "one put, or an upload in parts"
    assert store.read("p=1/f") == data
    with s3_server.counted() as seen, store.open_input("p=1/f") as file:
        assert file.size() == size
        for start, count in ((0, 10), (size - 5, 5), (size // 2, 100), (max(0, size - AHEAD - 50), 100)):
            if 0 <= start <= size:
                assert file.read_at(min(count, size - start), start) == data[start:start + count]
    assert len(seen) <= (2 if size == 0 else 1 if size <= AHEAD else 4)


def test_ranges_that_are_expected_are_asked_for_together(
    s3_server: S3Server, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_files, "BLOCK", 600)
    data = os.urandom(2000)
    store.put("f", data)
    with s3_server.counted() as seen, store.open_ahead("f", 100) as file:
        file.expect([(1000, 1200), (0, 100), (100, 600), (600, 700), (1850, 2000)])
        for start, stop in ((0, 100), (100, 600), (150, 200), (600, 700), (1100, 1200), (1000, 1100),
                            (1850, 2000), (650, 700), (300, 301)):
            assert file.read_at(stop - start, start) == data[start:stop]
    asked = [one.headers["range"] for one in seen]
    assert asked == ["bytes=-100", "bytes=0-599", "bytes=600-699", "bytes=1000-1199", "bytes=1850-1899",
                     "bytes=650-699", "bytes=300-300"], "each once, at most 600 together; then they are gone"


def test_a_file_is_read_by_several_threads_and_its_end_asked_for_once(
    s3_server: S3Server, store: ObjectStore
) -> None:
    data = os.urandom(2000)
    store.put("f", data)
    with s3_server.counted() as seen, store.open_ahead("f", 100) as file:
        assert file.at_hand == 100
        others = [file.again() for _ in range(3)]
        for other in others:
            other.expect([(0, 10)])
            assert other.read_at(90, 1910) == data[1910:] and other.size() == 2000
    assert len(seen) == 1


def test_parquet_through_the_store(store: ObjectStore) -> None:
    rows = pa.table({"id": list(range(50_000)), "text": [f"row {n} of many" * 3 for n in range(50_000)]})
    with store.open_output("f.parquet") as out:
        pq.write_table(rows, out, row_group_size=10_000, compression="none")
    with store.open_input("f.parquet") as file:
        assert pq.ParquetFile(file, pre_buffer=True).read(["text"]).equals(rows.select(["text"]))


def test_many_are_read_and_removed(s3_server: S3Server, store: ObjectStore) -> None:
    for number in range(40):
        store.put(f"d/{number:02}", b"%d" % number)
    names = [f"d/{number:02}" for number in range(42)]
    assert list(store.read_many(names)) == [b"%d" % number for number in range(40)] + [None, None]
    with s3_server.counted() as seen:
        store.delete_many(names)
    assert len(seen) == 1
    assert list(store.list_all("")) == []


def test_a_listing_starts_behind_what_is_known_and_ends_before_what_is_not_wanted(
    s3_server: S3Server, store: ObjectStore
) -> None:
    for name in ("log/01", "log/02", "log/03", "log/_sidecars/a", "log/_z"):
        store.put(name, b"")
    with s3_server.counted() as seen:
        assert store.list_names("log/02") == ["log/02", "log/03", "log/_z"]
        assert [one.name for one in store.list_from("log/02", until="log/:")] == ["log/02", "log/03"]
    assert ["start-after" in request.query for request in seen] == [True, True]
    assert store.list_names("log/") == ["log/01", "log/02", "log/03", "log/_z"]


def test_a_listing_of_many_pages_goes_on_where_it_broke_off(
    s3_server: S3Server, bucket: str
) -> None:
    store = ObjectStore(f"{bucket}/t", s3_server.options)
    names = [f"d/{number:05}" for number in range(2_500)]
    for name in names:
        s3_server.store(bucket.removeprefix("s3://"), f"t/{name}", b"")
    pages: list[str] = []

    def cut(request: Request) -> str | None:
        pages.append(request.query)
        return "cut" if len(pages) in (2, 4) else None

    with s3_server.failing(cut):
        assert [one.name for one in store.list_all("d")] == names
    assert len(pages) == 5
    with s3_server.counted() as seen:
        assert next(iter(store.list_all("d"))).name == names[0]
        assert [one.name for one in store.list_from("d/01000", until="d/01002")] == names[1000:1002]
    assert len(seen) <= 4, "no page is asked for that nobody wants"


def test_paths_of_the_same_bucket_keep_its_access(s3_server: S3Server, bucket: str) -> None:
    store = ObjectStore(f"{bucket}/lake/t", s3_server.options)
    ObjectStore(f"{bucket}/other", s3_server.options).put("far", b"1")
    name = bucket.removeprefix("s3://")
    for path in (f"s3a://{name}/other/far", f"s3://me:secret@{name}/other/far", "/other/far"):
        home, file_name = store.resolve(path)
        assert home.read(file_name) == b"1"
    assert store.resolve(f"s3://{name}/lake/t/x") == (store, "x")
    abroad, _ = store.resolve("s3://elsewhere/far")
    assert abroad.access.token == "", "no bucket but its own gets the credentials"  # type: ignore[attr-defined]


# -- connections that come to nothing -----------------------------------------------------------------


@pytest.fixture(scope="module")
def untrusted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with a certificate of its own, by its URL."""
    import ssl
    import threading
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    pem = tmp_path_factory.mktemp("tls") / "server.pem"
    pem.write_bytes(self_signed())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)

    class Silent(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            """A client that does not trust it hangs up."""

    server = Silent(("127.0.0.1", 0), BaseHTTPRequestHandler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"https://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def self_signed() -> bytes:
    """A certificate for 127.0.0.1 that nobody vouches for, and its key."""
    import datetime
    import ipaddress

    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "lake")])
    begins = datetime.datetime(2020, 1, 1)
    made = (x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
            .serial_number(1).not_valid_before(begins).not_valid_after(begins.replace(year=2120))
            .add_extension(x509.SubjectAlternativeName(
                [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False).sign(key, hashes.SHA256()))
    return bytes(made.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))


HASTY = {"aws_access_key_id": "tester", "aws_secret_access_key": "kept-to-itself", "aws_region": "us-east-1",
         "max_retries": "0"}


@pytest.mark.parametrize("call", ["read", "status", "list_from", "put", "delete", "open_input"])
def test_a_certificate_that_nobody_vouches_for_is_named(untrusted: str, call: str) -> None:
    store = ObjectStore("s3://lake/t", {**HASTY, "aws_endpoint_url": untrusted})
    with pytest.raises(StorageError, match=r"its certificate cannot be trusted.*SSL_CERT_FILE"):
        getattr(store, call)("a", b"x") if call == "put" else getattr(store, call)("a")


@pytest.mark.parametrize("call", ["read", "status", "list_from", "put", "delete", "open_input"])
def test_a_host_that_is_unknown_is_named(call: str) -> None:
    store = ObjectStore("s3://lake/t", {
        **HASTY, "aws_endpoint_url": "http://nowhere.invalid:1", "aws_allow_http": "true"})
    with pytest.raises(StorageError, match=r"the host nowhere\.invalid is unknown.*endpoint"):
        getattr(store, call)("a", b"x") if call == "put" else getattr(store, call)("a")
