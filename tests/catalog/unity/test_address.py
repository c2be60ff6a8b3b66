"""Addresses of what a Unity Catalog serves, and what is none."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltanb.catalog.unity.client.address import Address, is_safe, origin_of, parse_address
from deltanb.errors import InvalidArgument
from deltanb.store.uris import is_of_unity
from tests.examples import many

URLS = {
    "localhost:8080": "http://localhost:8080",
    "LOCALHOST": "http://localhost",
    "127.0.0.1:80": "http://127.0.0.1",
    "127.8.9.1:443": "http://127.8.9.1:443",
    "[::1]:8080": "http://[::1]:8080",
    "[0:0:0:0:0:0:0:1]": "http://[::1]",
    "adb-1.2.azuredatabricks.net": "https://adb-1.2.azuredatabricks.net",
    "Lake.Example.com:443": "https://lake.example.com",
    "lake.example.com:80": "https://lake.example.com:80",
    "10.0.0.1": "https://10.0.0.1",
    "0.0.0.0:8080": "https://0.0.0.0:8080",
    "127.1": "https://127.1",
    "localhost.example.com": "https://localhost.example.com",
    "127.0.0.1.example.com": "https://127.0.0.1.example.com",
    "unity_1:8080": "https://unity_1:8080",
    "xn--nxasmq6b": "https://xn--nxasmq6b",
    "[2001:DB8::1]": "https://[2001:db8::1]",
    "[::ffff:10.0.0.1]": "https://[::ffff:a00:1]",
}
"""Host and port -> where the server answers: on this machine, and nowhere else, without HTTPS."""

NAMES: dict[str, tuple[str, ...]] = {
    "main": ("main",), "main.shop": ("main", "shop"), "main.shop.orders": ("main", "shop", "orders"),
    "main.`my schema`.t": ("main", "my schema", "t"), "`a``b`.`@`": ("a`b", "@"),
    "my-cat_1.Ä.表": ("my-cat_1", "Ä", "表"), "`%20?#:`": ("%20?#:",), "`main`": ("main",),
}

REFUSED: dict[Any, str] = {
    "localhost/main": "not an address of Unity Catalog; give uc://host",
    "https://localhost/main": "not an address of Unity Catalog; give uc://host",
    None: "None is not an address",
    7: "7 is not an address",
    b"uc://localhost/main": "is not an address",
    "uc://localhost": "'uc://localhost' names no catalog; give uc://host",
    "uc://localhost/": "names no catalog",
    "uc://": "names a host",
    "uc:///main": "names a host",
    "uc://:80/main": "names a host",
    "uc://localhost/main.shop.orders.x": "has 4 parts, and at most 3 are allowed: catalog, schema and table",
    "uc://localhost/main.": "has an empty part; every part needs a name",
    "uc://localhost/main..t": "has an empty part",
    "uc://localhost/.t": "has an empty part",
    "uc://localhost/main.``.t": "has a backtick that does not quote",
    "uc://localhost/main.`t": "has a backtick that does not quote",
    "uc://localhost/a`b`": "has a backtick that does not quote",
    "uc://localhost/`a`b": "has 'b' in a part",
    "uc://localhost/main/shop": "has a slash in its name; parts are joined by dots",
    "uc://localhost//main": "has a slash",
    "uc://localhost/main/": "has a slash",
    "uc://localhost/main?o=123": r"has a query; leave it out\. Of Databricks, give the host of the workspace",
    "uc://localhost?o=1": "has a query",
    "uc://localhost#x/y": "has a fragment",
    "uc://localhost/main#x": "has a fragment",
    "uc://localhost/my%20cat": "has an escape; write names as they are",
    "uc://localhost/%6Dain": "has an escape",
    "uc://localhost/my cat": "has ' ' in a part; put the part into backticks",
    "uc://localhost/a\\b": "put the part into backticks",
    "uc://localhost/`a.b`": "'a.b' of a name has a dot",
    "uc://localhost/`a/b`": "has a slash; leave it out",
    "uc://localhost/`a\nb`": "cannot be printed",
    "uc://localhost/" + "a" * 256: "longer than 255",
    "uc://localhost:0/main": "port of the host 'localhost' is not a number",
    "uc://localhost:/main": "port of the host",
    "uc://localhost:65536/main": "port of the host",
    "uc://localhost:٨/main": "port of the host",
    "uc://::1/main": "in brackets",
    "uc://fe80::1/main": "in brackets",
    "uc://[::1/main": "in brackets",
    "uc://[::1]x/main": "in brackets",
    "uc://[fe80::1%eth0]/main": "in brackets",
    "uc://[1::2::3]/main": "'1::2::3' is not an IPv6 address",
    "uc://[]/main": "'' is not an IPv6 address",
    "uc://höst/main": "is not the name of a host",
    "uc://-a/main": "is not the name of a host",
    "uc://a b/main": "is not the name of a host",
    "uc://localhost./main": "is not the name of a host",
    "uc://localhost\n/main": "is not the name of a host",
}
SECRET = "hush1"
WITH_SECRETS = [
    "uc://user:hush1@localhost/main", "uc://hush1@localhost/main", "uc://user:hush1/x@localhost/main",
    "uc://user:hush1?x@localhost/main", "uc://user:x`hush1@localhost/main", "uc://user:x#hush1@localhost/main",
    "uc://localhost:hush1/main", "uc://user:hush1", "uc://user:x:hush1", "uc://localhost/main?token=hush1",
]


@pytest.mark.parametrize(("authority", "url"), URLS.items())
def test_plain_http_is_for_this_machine_alone(authority: str, url: str) -> None:
    assert parse_address(f"uc://{authority}/main") == Address(url, "main")
    assert is_safe(url) and origin_of(f"{url}/x?y=/@z") == origin_of(url) == url
    assert is_safe(url.replace("https:", "http:")) == url.startswith("http:")


@pytest.mark.parametrize(("text", "parts"), NAMES.items())
def test_dots_join_parts_and_backticks_quote_them(text: str, parts: tuple[str, ...]) -> None:
    assert parse_address(f"UC://localhost/{text}") == Address("http://localhost", parts[0], parts[1:])


@pytest.mark.parametrize(("text", "message"), REFUSED.items())
def test_what_is_no_address_is_refused_with_a_way_out(text: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        parse_address(text)
    assert is_of_unity(text) == str(text).startswith("uc://")


@pytest.mark.parametrize("text", WITH_SECRETS)
def test_a_secret_in_an_address_is_refused_and_not_shown(text: str) -> None:
    assert SECRET in text
    with pytest.raises(InvalidArgument) as caught:
        parse_address(text)
    assert SECRET not in f"{caught.value!r} {caught.value} {caught.value.data}"


@pytest.mark.parametrize("url", [
    "ftp://localhost", "https://", "https://u:p@localhost", "https://localhost:x", "https://127.0.0.1\\.example.com/",
    "https://local host", "http://localhost/\n", "https://[::1", "://localhost", "localhost"])
def test_urls_that_are_none_have_no_origin(url: str) -> None:
    with pytest.raises(InvalidArgument):
        origin_of(url)


signs = st.characters(exclude_characters="./\\", exclude_categories=("C", "Z")) | st.just(" ")
names = st.text(signs, min_size=1, max_size=255)
hosts = st.sampled_from(sorted(URLS.values()))


@given(url=hosts, catalog=names, name=st.lists(names, max_size=2).map(tuple))
@many
def test_an_address_is_its_text(url: str, catalog: str, name: tuple[str, ...]) -> None:
    address = Address(url, catalog, name)
    assert parse_address(str(address)) == address


@given(st.text("uc:/@.[]`ab%?#:1 \n") | st.text())
@many
def test_a_text_is_an_address_or_is_refused_by_name(text: str) -> None:
    for whole in (text, f"uc://{text}", f"uc://localhost/{text}"):
        try:
            address = parse_address(whole)
        except InvalidArgument:
            continue
        assert parse_address(str(address)) == address
        assert re.fullmatch(r"https?://[^/?#@`]+", address.url)
