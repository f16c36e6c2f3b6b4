"""What options are taken, and that what is wrong with others is said without saying a secret."""

from typing import Any

import pytest

from gdsvc.client import InvalidOptions, Options
from gdsvc.client.directory import filter_query
from gdsvc.client.options import bearer
from gdsvc.pool_discovery.directory import EVERYTHING, Filter


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("http://gds", "http://gds"),
        ("https://gds.example:8443/", "https://gds.example:8443"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        ("http://10.0.0.1:80/gds/", "http://10.0.0.1:80/gds"),
        ("HTTP://gds", "HTTP://gds"),
    ],
)
def test_base_urls_are_taken_and_lose_the_slash_at_their_end(url: str, kept: str) -> None:
    assert Options((url,)).urls == (kept,)


def test_a_list_of_urls_is_as_good_as_a_tuple() -> None:
    assert Options(["http://a", "http://b"]).urls == ("http://a", "http://b")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "urls",
    [
        (),
        "http://gds",
        ("",),
        ("gds:8080",),
        ("ftp://gds",),
        ("http://",),
        ("http:///pools",),
        ("http://gds:0",),
        ("http://gds:65536",),
        ("http://gds:x",),
        ("http://gds/?a=b",),
        ("http://gds/#a",),
        ("http://gds/a b",),
        ("http://gds\r\nX: y",),
        ("http://user:hunter2@gds",),
        ("http://1.2.3",),
        ("http://gds", "http://hunter2@b"),
    ],
)
def test_other_urls_are_refused_without_being_repeated(urls: Any) -> None:
    with pytest.raises(InvalidOptions, match=r"^urls: expected ") as refused:
        Options(urls)
    assert isinstance(refused.value, ValueError)
    assert refused.value.option == "urls"
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("name", ["connect_timeout_secs", "request_timeout_secs", "poll_interval_secs"])
@pytest.mark.parametrize("secs", [0, -1.0, float("inf"), float("nan")])
def test_times_are_above_zero_and_end(name: str, secs: float) -> None:
    with pytest.raises(InvalidOptions, match=f"^{name}: "):
        Options(("http://gds",), **{name: secs})  # type: ignore[arg-type]


def test_a_key_needs_its_certificate() -> None:
    with pytest.raises(InvalidOptions, match="client_cert_path"):
        Options(("http://gds",), client_key_path="key.pem")


def test_the_token_is_asked_for_each_time() -> None:
    tokens = iter(["first", "second", None, ""])
    assert [bearer(lambda: next(tokens)) for _ in range(4)] == ["Bearer first", "Bearer second", None, None]
    assert bearer(None) is None


@pytest.mark.parametrize("token", ["hunter2\n", "hunter2 x", "hunter2\r\nX: y", "hunter2é"])
def test_a_token_that_is_none_is_not_repeated(token: str) -> None:
    with pytest.raises(InvalidOptions) as refused:
        bearer(lambda: token)
    assert "hunter2" not in str(refused.value)


def test_a_filter_asks_for_each_of_its_values_in_one_order() -> None:
    where = Filter(frozenset({"b", "a"}), frozenset({"eu"}))
    assert filter_query(where) == [("model", "a"), ("model", "b"), ("region", "eu")]
    assert filter_query(EVERYTHING) == []


def test_a_filter_that_nothing_passes_is_refused_and_not_taken_for_none() -> None:
    with pytest.raises(InvalidOptions):
        filter_query(Filter(models=frozenset()))
