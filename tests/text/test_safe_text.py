"""Names, paths and values of others reach no screen raw: not their control characters, not their secrets."""

from __future__ import annotations

import io
import json
import logging
import pickle
import re
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import deltanb as dn
from deltanb.actions import AddFile
from deltanb.app import cli
from deltanb.errors import (
    ConcurrentAppendException,
    DataFileNotFound,
    DeltaConcurrentModificationException,
    DeltaError,
    InvalidTable,
    SchemaMismatch,
)
from deltanb.store.local import LocalStore
from deltanb.store.open import store_for
from deltanb.testing import MemoryStore, TableBuilder, add
from deltanb.text import formatting as units
from deltanb.text import safe_text as formatting
from deltanb.text.safe_text import escaped, get_logger, redacted, safe, without_credentials

EVIL = "\x1b[31m\x9b2J\r\u202e\u2066x\u200b\u2028\x85\ufeff\x07"
SECRET = "wJalrXUtnFEMI/K7MDENG+bPxRfi"
ROOTS = [
    f"s3://AKIA:{SECRET}@lake/t", f"https://lake.example/t?sv=2021&sig={SECRET}",
    f"https://lake.example/t?X-Amz-Credential=AKIA&X-Amz-Signature={SECRET}",
    f"s3://{SECRET[:9]}{SECRET[13:]}@lake/t",
    f"abfss://box:{SECRET}@lake.example/t", f"azure://lake/t?AccountKey={SECRET}",
]


def raw(text: str) -> str:
    """What of a text would reach a terminal as more than a character; views set gaps with U+2002."""
    return "".join(c for c in text if not c.isprintable() and c not in "\n\u00a0\u200d\u2002")


def tells(text: str) -> bool:
    return SECRET in text or SECRET[13:] in text


# --- the one place --------------------------------------------------------------------------------

@given(st.text(st.characters(), max_size=60))
def test_nothing_but_characters_is_left_of_any_text(text: str) -> None:
    assert raw(safe(text)) == "" == raw(escaped(text)) and "\n" not in escaped(text)
    assert safe(safe(text)) == safe(text)
    safe(text).encode()  # lone surrogates, too


_WORD = st.text("abcXYZ019", min_size=1, max_size=8)
_KEY = st.text("abcXYZ019+/=%-_.~", min_size=8, max_size=24).filter(lambda t: not t.isdigit())


@given(_WORD, _KEY, st.sampled_from([
    "s3://{0}:{1}@lake/t", "s3a://{1}@lake/{0}", "https://u:{1}@h:80/{0}?a=b", "https://h/{0}?sig={1}",
    "https://h/{0}/a.parquet?sv=2&sig={1}&se=3", "{0}/a.parquet?X-Amz-Signature={1}",
    "AccountName={0};AccountKey={1}", "{0}%3Fsig%3D{1}", "hdfs://{0}:{1}@nn:8020/t", "abfss://{0}:{1}@h/t",
    "s3:/{0}:{1}@lake/t", "no table at (s3://{0}:{1}@b/t).", "sv={0}&sig={1}", "SharedAccessSignature={1}",
    "jdbc:postgresql://h/{0}?user={0}&password={1}", "https://h/{0}#sig={1}", "{0}#a=b&access_token={1}",
    "{0}/a.parquet#X-Amz-Signature={1}"]))
def test_no_secret_is_left_of_any_path(word: str, secret: str, form: str) -> None:
    if form.startswith("s3a:"):  # without a name before it, a slash ends what can be told from a bucket
        secret = secret.replace("/", "+")
    secret = secret.lstrip("/=")
    assume(len(secret) > 3 and not ("%3" in form and "%" in secret))
    shown = redacted(form.format(word, "Q" + secret + "Q"))
    assert f"Q{secret}Q" not in shown and redacted(shown) == shown
    assert "***" in shown


@given(_WORD, _KEY, st.sampled_from([
    "s3://{0}:{1}@lake/t", "https://u:{1}@h/{0}", "https://h/{0}?sv=2&sig={1}", "https://h/{0}#sig={1}",
    "abfss://{0}:{1}@h/t"]), st.integers(1, 3))
def test_no_secret_is_left_of_a_url_that_is_escaped_as_a_whole(
    word: str, secret: str, form: str, times: int
) -> None:
    secret = "Q" + re.sub(r"\W", "-", secret).lstrip("-") + "/Q"
    text = form.format(word, secret)
    for _ in range(times if "@" in form else 1):
        text, secret = quote(text, safe=""), quote(secret, safe="")
    shown = redacted(f"cannot open {text}, see above")
    assert secret not in shown and "***" in shown and redacted(shown) == shown
    assert shown.startswith("cannot open ") and shown.endswith(", see above")


@given(_KEY, st.sampled_from([
    "Authorization: Bearer {}", "authorization: bearer {}", "{{'Authorization': 'Bearer {}'}}",
    '{{"authorization": "Basic {}"}}', "Authorization=Token {}", "proxy-authorization: {}", "Bearer {}",
    "GET h/t HTTP/1.1\nAuthorization: SharedKey lake:{}\nDate: x", "x-amz-security-token: {}",
    "headers={{b'Authorization': b'Bearer {}'}}", "X-Api-Key: {}", "401 for token Bearer {}, retry",
    "Authorization: AWS4-HMAC-SHA256 Credential=a/b, Signature={}"]))
def test_no_secret_is_left_of_any_header(secret: str, form: str) -> None:
    secret = "Q1" + secret.replace("%", "-").rstrip(".") + "Q"
    shown = redacted(form.format(secret))
    assert secret not in shown and "***" in shown and redacted(shown) == shown
    wrapped = InvalidTable(f"cannot be read: {RuntimeError(form.format(secret))}")
    assert secret not in str(wrapped)


@given(_KEY, st.sampled_from([
    "fs.azure.account.key.lake.dfs.core.windows.net={}", "spark.hadoop.fs.s3a.secret.key={}",
    "fs.s3a.access.key = {}", "fs.s3a.session.token: {}", "fs.azure.sas.box.lake.blob.core.windows.net={}",
    "fs.azure.account.oauth2.client.secret.lake.dfs.core.windows.net={}", "fs.oss.accessKeySecret={}",
    "{{'fs.s3a.secret.key': '{}'}}", '{{"fs.azure.account.key.lake": "{}"}}', "password={}",
    "password='{}'", '{{"password":"{}"}}', "ssl.trustStorePassword={}", "db_passwd={}", "user=me pwd={}",
    "client_secret={}", "secret={}", "secret_access_key={}", "name <> 'password={}'", "password%3D{}",
    "access_token={}", "api-key={}", '{{\\"api_key\\": \\"{}\\"}}']))
def test_no_secret_is_left_of_any_setting_outside_of_a_url(secret: str, form: str) -> None:
    secret = "Q1" + secret.replace("%", "-") + "Q"
    shown = redacted(form.format(secret))
    assert secret not in shown and "***" in shown and redacted(shown) == shown


def test_a_short_token_after_the_name_of_its_scheme_is_cut() -> None:
    assert redacted("401 Bearer xyz") == "401 Bearer ***"
    assert redacted("Authorization: Basic YTpi, then") == "Authorization: ***, then"


ORDINARY = [
    "the bearer token", "Bearer token", "Bearer authentication failed", "Authorization header", "#12",
    "100%", "%20", "a=b", "x#y", "c#d=e", "me@work", "s3://lake/a", "file:///a?b=c", "p=1/a%3Ab.parquet",
    "authorization: denied", "Authorization failed", "standard-bearer of news", "secret", "key", "sig",
    "token",
    "s3%3A%2F%2Flake%2Fday%3D1", "me%40work", "ts=2026-01-01 00%3A00%3A00/a", "(SELECT 1)", "x-axis",
    "=", ":", "?", "#", "\n",
]


@given(st.lists(st.sampled_from(ORDINARY), max_size=8).map(" ".join))
def test_text_without_credentials_is_as_it_was(text: str) -> None:
    assert redacted(text) == text


@given(st.text(st.characters(exclude_characters="=%@", exclude_categories=("Cs",)), max_size=60))
def test_text_that_assigns_and_addresses_nothing_is_as_it_was(text: str) -> None:
    assume(":/" not in text)
    assert redacted(text) == text


@pytest.mark.parametrize("text", [
    'WWW-Authenticate: Bearer realm="lake"', 'Bearer error="invalid_token"', "the Bearer scheme",
    "bearer bonds",
    "abfss%3A%2F%2Fbox%40lake.dfs.core.windows.net%2Ft", "hdfs%3A%2F%2Fnn%3A8020%2Fme%40work",
    "https://docs.delta.io/a.html#section", "https://h/a#b=c", "s3%3A%2F%2Flake%2Fme%40work%2Ft",
    "file%3A%2F%2F%2Fme%40work", "authorization: none", "is_authorization = true",
    "s3://lake/day=2026-03-02/a.parquet", "abfss://box@lake.dfs.core.windows.net/t", "hdfs://nn:8020/t",
    "/lake/me@work/t", "file:/lake/me@work/a?b=c.parquet", "http://[::1]:8080/x", "who@example.org",
    "a?b=1", "key = 'x' AND sig = 2", "key=1/a.parquet", "token=1/sig=2/a.parquet", "pwd is not set",
    "fs.s3a.aws.credentials.provider=org.apache.Provider", "fs.azure.account.keyprovider.lake=org.Provider",
    "fs.s3a.secret.key is not set", "wrong password: try again", "password = 3", "forpwd=1",
    "https://docs.delta.io/latest/concurrency-control.html",
    "memory:///table-1/p=12:30/a", "no store serves s3://",
])
def test_what_is_no_secret_stays(text: str) -> None:
    assert redacted(text) == text


def test_hostile_text_takes_no_time() -> None:
    """Work grows with the text, not with its square: a message may quote a whole log line."""
    for part in ("a://", "s3://a:b/", "?", "%3F", "a@", "a?b&", "?sig=)", "#", "%23", "#a&",
                 "s3%3A%2F%2Fa%3A", "%253A%252F", "a%3A", "bearer ", "Authorization: ", "Authorization: a",
                 "x-api-key:", "fs.", "fs.key.", "fs.a", "fs.azure.key", "password", "password=", "secret_",
                 "password'", "fs.key '"):
        redacted(part * (20_000 // len(part)) + "=@%3")


def test_what_is_stored_names_the_same_thing() -> None:
    assert without_credentials(f"https://u:{SECRET}@h/t?sig={SECRET}") == "https://h/t"
    assert without_credentials("/lake/me@work?sig=1") == "/lake/me@work?sig=1"
    assert without_credentials("abfss://box@h/t") == "abfss://box@h/t"


# --- errors ---------------------------------------------------------------------------------------

def evil_table() -> dn.DeltaTable:
    return dn.create(MemoryStore(f"s3://AKIA:{SECRET}@lake/t?sig={SECRET}"), pa.table(
        {"id": [1, 2], "c" + EVIL: ["a" + EVIL, "b"], "p": ["q" + EVIL, "z"]}), partition_by=["p"],
        properties={"delta.columnMapping.mode": "name", "delta.isolationLevel": "Serializable"},
        name="n" + EVIL, description="d" + EVIL)


def without_files(table: dn.DeltaTable) -> dn.DeltaTable:
    for status in list(table.log.store.list_all("")):
        if status.name.endswith(".parquet"):
            table.log.store.delete(status.name)
    return table


@pytest.mark.parametrize("work", [
    lambda t: t.to_arrow(where=f"`{EVIL}z` = 1"),
    lambda t: t.to_arrow(columns=[EVIL]),
    lambda t: t.delete(f"id = = '{EVIL}"),
    lambda t: t.append({"id": ["x" + EVIL], "c" + EVIL: ["x"], "p": ["y"]}),
    lambda t: t.append({"id": [1], "more" + EVIL: [1]}),
    lambda t: t.add_constraint("no" + EVIL, f"`c{EVIL}` = 'x'"),
    lambda t: t.as_of(f"2026{EVIL}"),
    lambda t: t.clone(t.log.store),
    lambda t: t.restore(9),
    lambda t: dn.create(t.log.store, {"id": [1]}),
    lambda t: dn.open("/nowhere/" + EVIL),
    lambda t: dn.open(f"s3://AKIA:{SECRET}@lake/t{EVIL}"),
    lambda t: dn.open(MemoryStore(f"https://lake.example/t?sig={SECRET}")).to_arrow(),
    lambda t: without_files(t).to_arrow(),
    lambda t: dn.actions.from_json(json.dumps({"add": {"path": EVIL, "size": EVIL}})),
    lambda t: t.set_properties({"delta.logRetentionDuration": EVIL}),
])
def test_errors_tell_neither(work: Callable[[dn.DeltaTable], Any]) -> None:
    table = evil_table()
    with pytest.raises(DeltaError) as caught:
        work(table)
    error = caught.value
    for text in (str(error), repr(error), error.message, *map(str, error.args),
                 *error.data.get("differences", ()), "".join(traceback.format_exception_only(error))):
        assert raw(text) == "" and not tells(text)
    assert pickle.loads(pickle.dumps(error)).message == error.message


def test_a_foreign_exceptions_words_are_made_safe_too() -> None:
    foreign = OSError(f"GET https://h/t?sig={SECRET} {EVIL}")
    error = InvalidTable(f"cannot be read: {foreign}", path="a" + EVIL)
    assert raw(str(error)) == "" and not tells(str(error)) and "https://h/t?***" in str(error)
    assert error.path == "a" + EVIL  # what programs go on with is as it was given
    lines = SchemaMismatch("x", differences=["~ a" + EVIL]).differences
    assert raw("".join(lines)) == ""


def test_no_text_that_an_error_carries_tells_keys() -> None:
    """Whatever it is called, also where several are listed, and of errors that know more than others."""
    place = f"s3://key:{SECRET}@lake/t"
    for kind in (dn.errors.InvalidTable, ConcurrentAppendException):
        error = kind("no", path=place, file=f"{place}/a", files=(f"{place}/a", f"{place}/b"), line=3)
        for one in (error, pickle.loads(pickle.dumps(error))):
            assert SECRET not in repr(one.data) and one.files == ("s3://***@lake/t/a", "s3://***@lake/t/b")
            assert (one.path, one.file, one.line) == ("s3://***@lake/t", "s3://***@lake/t/a", 3)


def test_conflicts_tell_neither() -> None:
    table = evil_table()
    for operation in (dn.Operation("OP" + EVIL, {"predicate": [EVIL]}), "OTHER" + EVIL):
        txn = table.start_transaction()
        txn.read_whole_table()
        table.append({"id": [9], "c" + EVIL: ["x"], "p": ["q" + EVIL]},
                     user_metadata=EVIL + f" s3://k:{SECRET}@h/x")
        with pytest.raises(DeltaConcurrentModificationException) as caught:
            txn.commit([next(iter(txn.filter_files())).remove()], operation)
        conflict = caught.value.conflict
        assert isinstance(caught.value, ConcurrentAppendException) and conflict is not None
        for text in (str(caught.value), conflict.message, repr(conflict), str(conflict),
                     *conflict._repr_mimebundle_().values()):
            text = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
            assert raw(text) == "" and not tells(text)


# --- views, names, logs ---------------------------------------------------------------------------

def shown(table: dn.DeltaTable) -> Iterator[Any]:
    yield from (table, table.snapshot, table.log, table.history(), table.timeline(), table.diff(0, 1),
                table.vacuum(0, check=False, dry_run=True), table.time_travel(), table.versions(),
                table.start_transaction(), table.metadata)
    for version in (0, 1):
        yield from table.log.read_commit(version)


def test_views_tell_neither() -> None:
    table = evil_table()
    table.append({"id": [3], "c" + EVIL: ["x"], "p": ["q" + EVIL]},
                 user_metadata=EVIL + f" s3://k:{SECRET}@h/x")
    for thing in shown(table):
        forms = thing._repr_mimebundle_() if hasattr(thing, "_repr_mimebundle_") else {}
        for text in (repr(thing), str(thing), *forms.values()):
            text = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False, default=str)
            assert raw(text) == "" and not tells(text), type(thing)
    assert not tells(json.dumps(table.detail(), default=str))


@pytest.mark.parametrize("root", ROOTS)
def test_a_roots_secret_is_in_no_name_and_in_nothing_that_is_written(root: str) -> None:
    builder = TableBuilder(MemoryStore(root)).create("id long").commit(add("a"))
    table = dn.DeltaTable(builder.log)
    for thing in shown(table):
        assert not tells(repr(thing)) and not tells(units.name_of(root))
    assert not tells(table.versions().table)
    table.log.checkpoint()
    table.set_properties({"delta.appendOnly": True})
    for name in table.log.store.list_names("_delta_log/"):
        assert SECRET.encode() not in table.log.store.read(name)
    assert table.path == root  # what opens it is untouched


def test_local_stores_too(tmp_path: Path) -> None:
    assert not tells(repr(LocalStore(tmp_path / f"t?sig={SECRET[:7]}{SECRET[13:]}")))
    with pytest.raises(DeltaError) as caught:
        store_for(f"s3://AKIA:{SECRET}@lake/t")
    assert not tells(str(caught.value)) and "s3://***@lake/t" in str(caught.value)


def test_log_lines_tell_neither() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logger = get_logger("deltanb.transaction")
    level = logger.level
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler)
    try:
        table = evil_table()
        table.append({"id": [3], "c" + EVIL: ["x"], "p": ["q"]})
        try:
            raise OSError(f"GET https://h/t?sig={SECRET} {EVIL}")
        except OSError:
            logger.exception("hook %s failed", EVIL)
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    text = stream.getvalue()
    assert "Committed delta #1 to s3://***@lake/t?***" in text and "Traceback" in text
    assert raw(text) == "" and not tells(text)


def test_every_logger_is_made_in_the_one_place_and_other_ways_out_ask_it() -> None:
    package = Path(formatting.__file__).parent.parent
    for path in package.rglob("*.py"):
        text = path.read_text()
        assert path.name == "safe_text.py" or "logging.getLogger" not in text, path
        if re.search(r"\bwarnings\.warn\(|\bstd(?:err|out)\.write\(|\.add_note\(", text):
            assert re.search(r"\bsafe\(", text), path


def test_the_command_line_tells_neither(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "t\x1b[2J"
    dn.create(folder, {"id": [1]}, description=EVIL).append({"id": [2]}, user_metadata=EVIL)
    for arguments in (["describe", str(folder)], ["history", str(folder)], ["verify", str(folder)],
                      ["verify", "--json", str(folder)], ["verify", f"s3://AKIA:{SECRET}@lake/t"],
                      ["describe", str(tmp_path / EVIL[:-4])], ["history", f"s3://AKIA:{SECRET}@lake/t"]):
        cli.main(arguments)
        out = capsys.readouterr()
        assert raw(out.out + out.err) == "" and not tells(out.out + out.err)


def test_a_table_is_called_by_its_path_without_the_secrets() -> None:
    store = MemoryStore("https://host/lake/flights?sig=secret")
    table = dn.create(store, {"n": [1]})
    txn = table.start_transaction()
    txn.commit([AddFile(path="a", partition_values={}, size=1, modification_time=1)], "WRITE")
    assert (table.name, txn.table) == ("flights", "flights")
    shown = [str(txn.stats), str(table), str(table.history()), str(txn), str(table.diff(0, 1))]
    assert not [text for text in shown if "secret" in text]


def test_the_traceback_of_a_missing_file_shows_no_secret(tmp_path: Path) -> None:
    table = dn.create(tmp_path / "t\x1b[31m", {"n": [1]})
    for file in (tmp_path / "t\x1b[31m").glob("*.parquet"):
        file.unlink()
    with pytest.raises(DataFileNotFound) as caught:
        table.to_arrow()
    assert "\x1b" not in "".join(traceback.format_exception(caught.value))


def test_a_message_with_an_endless_name_is_short() -> None:
    error = dn.errors.InvalidArgument(f"there is no column {'x' * 1_000_000!r}\nand no {'y' * 1_000_000!r}")
    assert len(str(error)) < 10_000 and str(error).startswith("there is no column 'xxx")


def test_a_warning_and_a_note_with_an_endless_name_are_short(tmp_path: Path) -> None:
    with pytest.warns(dn.errors.UnknownPropertyWarning) as warned:
        dn.create(tmp_path / "t", {"n": [1]}, properties={"delta." + "x" * 1_000_000: "1"})
    assert len(str(warned[0].message)) < 5_000
    error = ValueError()
    dn.errors.add_note(error, f"column {'x' * 1_000_000}")
    assert [len(note) < 5_000 for note in getattr(error, "__notes__", [])] == [True]


def test_the_path_of_an_error_tells_no_keys_of_a_store_of_others() -> None:
    from deltanb.testing import MemoryStore

    class Cloud(MemoryStore):
        def read(self, name: str) -> bytes:
            raise RuntimeError("throttled")

        list_from = read  # type: ignore[assignment]
        list_names = read  # type: ignore[assignment]

    with pytest.raises(dn.errors.DeltaError) as caught:
        dn.open(Cloud("cloud://key:hush@lake/t"))
    assert "hush" not in repr(caught.value.data) and caught.value.path.startswith("cloud://***@lake/t")
    with pytest.raises(dn.errors.TableNotFound) as absent:
        dn.open(MemoryStore("cloud://key:hush@lake/t"))
    assert "hush" not in repr(absent.value.data)
