"""How requests show who sends them: tokens, token URLs, profiles; and that no secret is seen on the way.

Answers of token URLs are put in by a transport of httpx's. The client around it is the real one, with what it
does of itself, such as following redirects.
"""

from __future__ import annotations

import base64
import copy
import itertools
import json
import logging
import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

pytest.importorskip("httpx", reason="the client is an extra: pip install 'deltanb[catalog]'")

import httpx

from deltanb import errors
from deltanb.catalog.unity.client import auth as auth_module
from deltanb.catalog.unity.client.auth import auth_of
from deltanb.catalog.unity.client.profiles import AUTH_TYPES
from deltanb.options import set_options
from tests.patience import PATIENCE, WatchedLock

URL = "https://lake.example.com"
TOKEN_URL = f"{URL}/oidc/v1/token"
ID, SECRET, TOKEN = "duck-id", "hush-client", "hush-token"
BASIC = base64.b64encode(f"{ID}:{SECRET}".encode()).decode()
CLIENT = {"client_id": ID, "client_secret": SECRET}
HOUR = 3_600_000  # milliseconds
EXAMPLES = {"token": TOKEN, **CLIENT, "token_url": f"{URL}/t", "scope": "all-apis", "profile": "dev"}


class TokenUrl:
    """Gives ``hush-1``, ``hush-2``, … for an hour each, or what a test puts into ``answers``."""

    def __init__(self) -> None:
        self.requests: list[httpx.Request] = []
        self.answers: list[Any] = []
        self.expires_in: Any = 3600
        self.on_request: Callable[[], object] = lambda: None

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        self.on_request()
        if not self.answers:
            return answer(200, access_token=f"hush-{len(self.requests)}", token_type="Bearer",
                          expires_in=self.expires_in)
        scripted = self.answers.pop(0)
        if isinstance(scripted, Exception):
            raise scripted
        return scripted  # type: ignore[no-any-return]


def answer(status: int, **fields: Any) -> httpx.Response:
    """With a JSON object."""
    return httpx.Response(status, json=fields)


@pytest.fixture
def token_url(monkeypatch: pytest.MonkeyPatch) -> TokenUrl:
    served = TokenUrl()
    monkeypatch.setattr(httpx, "Client", partial(httpx.Client, transport=httpx.MockTransport(served)))
    return served


class Clock:
    """Stands still until a test moves it."""

    now = 10**12

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Iterator[Clock]:
    clock = Clock()
    with set_options(clock=clock):
        yield clock


@contextmanager
def refused(kind: type[Exception], message: str) -> Iterator[None]:
    """An error of a kind, in which no secret is."""
    with pytest.raises(kind, match=message) as caught:
        yield
    error: Any = caught.value
    while error is not None:
        text = f"{error!r} {error} {getattr(error, 'data', '')} {getattr(error, '__notes__', '')}"
        assert "hush" not in text and BASIC not in text, text
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


# -- who it is ------------------------------------------------------------------------------------------


def test_nobody_and_the_owner_of_a_token() -> None:
    nobody, owner = auth_of(URL), auth_of(URL, token=TOKEN)
    assert nobody.header() is None and owner.header() == f"Bearer {TOKEN}"
    assert not nobody.renewed(None) and not owner.renewed(owner.header())  # the same would be refused again


@pytest.mark.parametrize("names", [
    pair for pair in itertools.permutations(EXAMPLES, 2)
    if not any({*pair} <= {*way} for way in auth_module._WAYS)])
def test_arguments_of_two_ways_contradict_each_other(names: tuple[str, str]) -> None:
    with refused(errors.InvalidArgument, "contradict each other; pass token"):
        auth_of(URL, **{name: EXAMPLES[name] for name in names})


@pytest.mark.parametrize("name", ["client_id", "client_secret", "token_url", "scope"])
def test_a_client_has_an_id_and_a_secret(name: str) -> None:
    with refused(errors.InvalidArgument, f"the {name} comes without client_"):
        auth_of(URL, **{name: EXAMPLES[name]})


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("value", ["", 7, b"hush", ["hush"]])
def test_each_argument_is_a_text(name: str, value: Any) -> None:
    with refused(errors.InvalidArgument, f"^{name} is a text, found "):
        auth_of(URL, **{name: value})


@pytest.mark.parametrize("changes", [
    {"client_id": "a:b"}, {"client_id": "dück"}, {"client_secret": "hush\n"}, {"client_secret": "hüsh"},
    {"scope": "a\r\nb"}])
def test_what_no_client_can_have(changes: dict[str, str]) -> None:
    with refused(errors.InvalidArgument, f"^{next(iter(changes))} has "):
        auth_of(URL, **CLIENT | changes)
    with refused(errors.InvalidArgument, "the token has printable ASCII"):
        auth_of(URL, token="hush \n")


@pytest.mark.parametrize("url", ["http://lake.example.com", "http://10.0.0.1:8080", "http://127.0.0.1.example.com"])
def test_secrets_are_not_sent_in_the_clear_to_other_machines(url: str, token_url: TokenUrl) -> None:
    with refused(errors.InvalidArgument, "secrets are sent by HTTPS or to this machine, and http"):
        auth_of(url, token=TOKEN)
    with refused(errors.InvalidArgument, "takes a secret, which is sent by HTTPS"):
        auth_of(URL, **CLIENT, token_url=f"{url}/token")
    assert auth_of(url).header() is None and not token_url.requests
    assert auth_of("http://[::1]:8080", token=TOKEN).header()


@pytest.mark.parametrize("url", ["lake", "ftp://lake/t", "https://u:hush@lake/t", "https://", "https://lake:hush/t",
                                 "https://lake\\t", "https://lake/ t", "https://xn--/t", "https://lake/t?code=hush",
                                 "https://lake/t#hush", "http://lake/t#hush"])
def test_token_urls_that_are_none(url: str) -> None:
    with refused(errors.InvalidArgument, "URL|host"):
        auth_of(URL, **CLIENT, token_url=url)


# -- tokens for a client --------------------------------------------------------------------------------


def test_a_token_is_asked_for_as_oauth_has_it(token_url: TokenUrl) -> None:
    assert auth_of(URL, **CLIENT).header() == "Bearer hush-1"
    other = "https://login.example.com/oauth2/v2.0/token"
    auth_of("http://localhost:8080", **CLIENT, token_url=other, scope="a b").header()
    first, second = token_url.requests
    assert (first.method, str(first.url)) == ("POST", TOKEN_URL)
    assert first.headers["Authorization"] == f"Basic {BASIC}"
    assert first.headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert parse_qs(first.content.decode()) == {"grant_type": ["client_credentials"], "scope": ["all-apis"]}
    assert str(second.url) == other
    assert parse_qs(second.content.decode())["scope"] == ["a b"]


@pytest.mark.parametrize(("expires_in", "used_for"), [
    (3600, HOUR - 60_000), ("3600", HOUR - 60_000), (120, 60_000), (60, 30_000), (0.5, 250), (0, 0),
    (None, None), (10**300, None)])
def test_a_token_is_used_until_shortly_before_its_end(
    token_url: TokenUrl, clock: Clock, expires_in: Any, used_for: int | None
) -> None:
    """``used_for``: milliseconds; None: as long as it is not refused."""
    token_url.expires_in = expires_in
    auth = auth_of(URL, **CLIENT)
    token_url.on_request = lambda: setattr(clock, "now", clock.now + 5)  # its life began before the answer
    begun = clock.now
    auth.header()
    if used_for != 0:
        clock.now = begun + (10**15 if used_for is None else used_for - 1)
        assert auth.header() == "Bearer hush-1"
    if used_for is not None:
        clock.now = begun + used_for
        assert auth.header() == "Bearer hush-2"


def test_after_a_refusal_there_is_one_new_token_for_all_who_had_the_old_one(token_url: TokenUrl) -> None:
    auth = auth_of(URL, **CLIENT)
    old = auth.header()
    assert auth.renewed(old) and auth.header() == "Bearer hush-2"
    assert auth.renewed(old) and auth.header() == "Bearer hush-2"  # another thread, whose answer came later
    assert auth.renewed() and auth.renewed() and auth.header() == "Bearer hush-3"


def test_one_thread_asks_and_the_others_wait_for_its_token(token_url: TokenUrl) -> None:
    auth: Any = auth_of(URL, **CLIENT)
    auth._lock = lock = WatchedLock(5)
    token_url.on_request = lock.all_came  # while all are waiting, the first one is still under way
    headers: list[str] = []
    threads = [threading.Thread(target=lambda: headers.append(auth.header())) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert headers == ["Bearer hush-1"] * 5 and len(token_url.requests) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_forked_process_does_not_wait_for_a_thread_of_its_parent(token_url: TokenUrl) -> None:
    auth: Any = auth_of(URL, **CLIENT)
    with auth._lock:
        child = os.fork()
        if child == 0:
            signal.alarm(30)  # one that hangs ends
            os._exit(0 if auth.header() == "Bearer hush-1" else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


REFUSALS: dict[str, httpx.Response] = {
    "invalid_client: Client authentication failed": answer(
        401, error="invalid_client", error_description="Client authentication failed"),
    "invalid_scope": answer(400, error="invalid_scope"),
    "status 403": httpx.Response(403, text="<html>"),
    "status 400": answer(400, error={"message": "no"}),
    "status 401": httpx.Response(401, json=[]),
    r"no \*\*\*, x+": answer(401, error=f"no {SECRET}, {'x' * 400}", error_description=BASIC),
    r"\*\*\*": answer(401, error_description=BASIC),
}
LIVES = ['-1', 'true', '"hush"', '[]', '{}', 'NaN', 'Infinity', '1e999', '9' * 400]
NO_TOKENS: list[tuple[httpx.Response, str]] = [
    (answer(429), "has too many requests; try again later"),
    *((httpx.Response(status, headers={"Location": f"{URL}/elsewhere"}), "no redirect is followed with a")
      for status in (301, 302, 303, 307, 308)),
    *((response, "does not answer with a JSON object") for response in (
        httpx.Response(200, text="<html>hush"), httpx.Response(200, json=["hush"]), httpx.Response(204),
        httpx.Response(200, content=b"[" * 10**5))),
    *((answer(200, expires_in=3600, access_token=token), "gives no token: access_token has printable ASCII")
      for token in (None, 7, "", "hush\r\nX-Evil: 1")),
    (answer(200, access_token=TOKEN, token_type="mac"), "gives no bearer token"),
    *((httpx.Response(200, text=f'{{"access_token": "{TOKEN}", "expires_in": {life}}}'),
       "gives no token: expires_in is a number of seconds") for life in LIVES),
]
ANSWERS: list[tuple[httpx.Response, type[Exception], str]] = [
    *((response, errors.Unauthorized, f"^the token URL {TOKEN_URL} refuses the client: {text}$")
      for text, response in REFUSALS.items()),
    *((response, errors.StorageError, f"the token URL {TOKEN_URL} .*{text}") for response, text in NO_TOKENS),
    *((httpx.Response(status), errors.InvalidArgument, f"nothing gives tokens at {TOKEN_URL} .+ {status}")
      for status in (404, 405, 410)),
]


@pytest.mark.parametrize(("response", "kind", "message"), ANSWERS, ids=range(len(ANSWERS)))
def test_answers_that_are_no_token(
    token_url: TokenUrl, caplog: pytest.LogCaptureFixture, response: httpx.Response, kind: type[Exception],
    message: str,
) -> None:
    caplog.set_level(logging.DEBUG)
    auth = auth_of(URL, **CLIENT)
    token_url.answers = [response]
    with refused(kind, message):
        auth.header()
    assert len(token_url.requests) == 1 and "hush" not in caplog.text
    assert auth.header() == "Bearer hush-2"  # the next request asks again


@pytest.mark.parametrize(
    "silence", [httpx.ConnectError("refused"), httpx.ReadTimeout(""), answer(500), answer(503)], ids=repr)
def test_a_token_url_that_does_not_answer_is_asked_once_more(token_url: TokenUrl, silence: Any) -> None:
    auth = auth_of(URL, **CLIENT)
    token_url.answers = [silence]
    assert auth.header() == "Bearer hush-2"
    auth.renewed()
    token_url.answers = [silence, silence]
    with refused(errors.StorageError, f"^the token URL {TOKEN_URL} cannot be asked: ."):
        auth.header()
    assert len(token_url.requests) == 4


# -- nothing is shown -----------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [{"token": TOKEN}, CLIENT], ids=["token", "client"])
def test_secrets_are_in_no_repr_no_pickle_and_no_log(
    token_url: TokenUrl, caplog: pytest.LogCaptureFixture, arguments: dict[str, str]
) -> None:
    caplog.set_level(logging.DEBUG)
    auth = auth_of(URL, **arguments)
    assert "hush" in str(auth.header())
    assert "hush" not in f"{auth!r} {auth} {[auth]} {caplog.text}"
    for duplicate in (pickle.dumps, copy.copy, copy.deepcopy):
        with refused(errors.IllegalStateError, "in the other process, connect again"):
            duplicate(auth)


def test_no_proxy_sees_the_secret_on_its_way_to_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers["Content-Length"])).decode()
            body = json.dumps({"access_token": f"{self.path[1:]}-{parse_qs(form)['scope'][0]}"}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://192.0.2.1:9")  # nobody has this address
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        assert auth_of(url, **CLIENT, token_url=f"{url}/t").header() == "Bearer t-all-apis"


# -- profiles -------------------------------------------------------------------------------------------


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The configuration file, which is still to be written."""
    monkeypatch.setenv("DATABRICKS_CONFIG_FILE", str(tmp_path / "cfg"))
    return tmp_path / "cfg"


CONFIG = f"""\
; made by hand
[DEFAULT]
host = {URL}/
token = {TOKEN}-default

[dev]
host = lake.example.com
token: {TOKEN}%(x)s
cluster_id =

[robot]
host = https://LAKE.example.com:443/?o=123
client_id = {ID}
client_secret = {SECRET}

[both-pat]
host = {URL}
auth_type = pat
token = {TOKEN}
client_id = {ID}
client_secret = {SECRET}

[both-m2m]
host = {URL}
AUTH_TYPE = oauth-m2m
token = {TOKEN}
client_id = {ID}
client_secret = {SECRET}
"""


@pytest.mark.parametrize(("profile", "header"), [
    ("DEFAULT", f"Bearer {TOKEN}-default"), ("dev", f"Bearer {TOKEN}%(x)s"), ("robot", "Bearer hush-1"),
    ("both-pat", f"Bearer {TOKEN}"), ("both-m2m", "Bearer hush-1")])
def test_profiles(config: Path, token_url: TokenUrl, profile: str, header: str) -> None:
    config.write_text("\ufeff" + CONFIG, "utf-8")
    assert auth_of(URL, profile=profile).header() == header
    asked = [str(request.url) for request in token_url.requests]
    assert asked == ([TOKEN_URL] if header == "Bearer hush-1" else [])


def test_the_file_at_home_without_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABRICKS_CONFIG_FILE", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with refused(errors.InvalidArgument, r"no file .*\.databrickscfg with the profile 'dev'; set DATA"):
        auth_of(URL, profile="dev")
    (tmp_path / ".databrickscfg").write_text(CONFIG)
    assert auth_of(URL, profile="dev").header() == f"Bearer {TOKEN}%(x)s"


HERE = f"[dev]\nhost = {URL}\n"
OF_NO_USE: dict[str, str] = {
    "[deb]\nhost = lake\n[prod]\n": "no profile 'dev' in .*; did you mean deb",
    "": "no profile 'dev' in .*; there are no profiles",
    "[DEFAULT]\nhost = lake.example.com\ntoken = hush\n[dev]\n": "names no host; write host = https://lake",
    f"[dev]\ntoken = {TOKEN}": "the profile 'dev' of .* names no host",
    "[dev]\nhost = https://other.example.com\ntoken = hush":
        "is for https://other.example.com, and the address for https://lake.example.com; pass a profile",
    "[dev]\nhost = http://lake.example.com\ntoken = hush": "is for http://lake.example.com, and",
    "[dev]\nhost = lake.example.com:8443\ntoken = hush": "is for https://lake.example.com:8443, and",
    "[dev]\nhost = https://u:hush@lake.example.com\ntoken = hush": "host of the profile 'dev' .* is malfor",
    HERE: "has neither a token nor client_id and client_secret, but host$",
    f"{HERE}username = ann\npassword = hush": "but host, username, password$",
    f"{HERE}token =": "has neither a token",
    **{f"{HERE}token = hush\nauth_type = {kind}": f"has the auth_type '{kind}', which is not supported: pat"
       for kind in ("azure-cli", "databricks-cli", "google-id", "metadata-service", "PAT")},
    **{f"{HERE}auth_type = {kind}\nx = hush": "has neither a token" for kind in AUTH_TYPES},
    f"{HERE}token = hush\nclient_id = {ID}": "has a token and a client; set auth_type = pat or oauth-m2m",
    f"{HERE}client_id = {ID}": "the client_id of the profile 'dev' comes without client_secret",
    f"{HERE}client_secret = hush": "the client_secret of the profile 'dev' comes without client_id",
    f"{HERE}token = hush x": "the token of the profile 'dev' has printable ASCII",
    "token = hush": "is not a configuration file of Databricks: see line 1$",
    f"{HERE}hush\n": "is not a configuration file of Databricks: see line 3$",
    "[dev]\ntoken = hush\ntoken = hush2\n": "is not a configuration file of Databricks: see line 3$",
    "[dev]\ntoken = hush\n[dev]\n": "is not a configuration file of Databricks: see line 3$",
    "[dev]\ntoken = hush\udcff": "is not a configuration file of Databricks$",
}


@pytest.mark.parametrize(("text", "message"), OF_NO_USE.items(), ids=range(len(OF_NO_USE)))
def test_profiles_that_are_of_no_use(config: Path, text: str, message: str) -> None:
    config.write_bytes(text.encode("utf-8", "surrogateescape"))
    with refused(errors.InvalidArgument, message):
        auth_of(URL, profile="dev")


def test_a_configuration_file_that_cannot_be_read(config: Path) -> None:
    config.mkdir()
    with refused(errors.StorageError, f"{config} cannot be read: "):
        auth_of(URL, profile="dev")
