"""Addresses: what a URL may say, and what is refused before anything is sent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware_profiles.errors import InputError
from real_runs.servers.address import Address

HOSTS = st.from_regex(r"[a-z][a-z0-9-]{0,20}(\.[a-z]{2,8}){0,2}", fullmatch=True)


@given(
    scheme=st.sampled_from(["http", "https"]),
    host=HOSTS,
    port=st.integers(1, 65535),
    path=st.sampled_from(["", "/a/b"]),
)
def test_an_address_reads_back_as_it_is_written(scheme, host, port, path):
    address = Address(scheme=scheme, host=host, port=port, prefix=path)
    assert Address.parse(str(address)) == address
    assert Address.parse(f"{address}/v1/") == address


@pytest.mark.parametrize(
    ("url", "port"),
    [("http://a", 80), ("https://a", 443), ("http://[::1]:8080", 8080), ("HTTP://A:1/v1", 1)],
)
def test_ports_and_hosts_are_what_the_url_says(url, port):
    assert Address.parse(url).port == port


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8080",
        "localhost",
        "ftp://a",
        "http://",
        "http://a:0",
        "http://a:70000",
        "http://a:x",
        "http://user:secret@a",
        "http://a/?q=1",
        "http://a/#f",
        "http://a/\r\nHost: b",
        "http://a b",
        "http://" + "a" * 5000,
    ],
)
def test_anything_else_is_refused(url):
    with pytest.raises(InputError, match="must be a server's address"):
        Address.parse(url)


def test_a_key_comes_from_the_environment_and_is_never_shown(monkeypatch):
    monkeypatch.setenv("SERVER_KEY", "sk-secret")
    address = Address.parse("http://a").with_key_of("SERVER_KEY")
    assert address.api_key == "sk-secret" and "secret" not in f"{address} {address!r}"
    assert Address.parse("http://a").with_key_of(None).api_key == ""
    for value in ("", "two words", "line\r\nHost: b"):
        monkeypatch.setenv("SERVER_KEY", value)
        with pytest.raises(InputError, match="key_env: must name an environment variable"):
            address.with_key_of("SERVER_KEY")
