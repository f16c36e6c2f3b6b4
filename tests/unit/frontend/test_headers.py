"""What crosses the frontend, and what it says of the caller: claims of strangers never pass for those of proxies."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdsvc.frontend.headers import (
    HOP,
    MOST_PEERS,
    MOST_SESSION_BYTES,
    SESSION_NAMES,
    TOWARDS_CALLER,
    Trusted,
    read,
    session_of,
    towards_pool,
)
from gdsvc.frontend.upstream.request import OURS, WRITER, RequestHead

Fields = list[tuple[bytes, bytes]]
MARKS = [(b"via", b"1.1 gdsvc"), (b"x-dynamo-global-router-hop", b"1")]
BETWEEN_HOPS = [
    b"connection",
    b"keep-alive",
    b"proxy-authenticate",
    b"proxy-authentication-info",
    b"proxy-authorization",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
]


def from_stranger(headers: Fields, peer: str = "192.0.2.7", host: bytes | None = b"api.example") -> Fields:
    return crossing(headers, peer, "https", host, trusted=False)


def from_proxy(headers: Fields, peer: str = "10.0.0.1", host: bytes | None = b"inner.example") -> Fields:
    return crossing(headers, peer, "http", host, trusted=True)


def crossing(headers: Fields, peer: str, scheme: str, host: bytes | None, *, trusted: bool) -> Fields:
    asked = headers if host is None else [(b"host", host), *headers]
    return towards_pool(read(asked, trusted=trusted), peer, scheme)


def session(headers: Fields) -> str | None:
    value = read(headers, trusted=False).session
    return None if value is None else session_of(value)


def told(peer: bytes, proto: bytes, host: bytes) -> Fields:
    return [(b"x-forwarded-for", peer), (b"x-forwarded-proto", proto), (b"x-forwarded-host", host)]


OF_STRANGER = [*told(b"192.0.2.7", b"https", b"api.example"), *MARKS]
OF_PROXY = [*told(b"10.0.0.1", b"http", b"inner.example"), *MARKS]


# ------------------------------------------------------------------------------------------------- towards the pool


def test_what_is_between_caller_and_pool_passes_in_order_with_repetitions_and_values() -> None:
    headers = [
        (b"authorization", b"Bearer secret"),
        (b"accept", b"a"),
        (b"traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        (b"accept", b"b"),
        (b"tracestate", b"vendor=1"),
        (b"cookie", b"a=1; b=2"),
        (b"accept-encoding", b"gzip"),
        (b"x-empty", b""),
        (b"x-latin", b"\xe9\xff"),
        (b"via", b"1.1 edge"),
        (b"accept", b"a"),
    ]
    assert from_stranger(headers) == headers + OF_STRANGER
    assert from_proxy(headers) == headers + OF_PROXY


@pytest.mark.parametrize("name", sorted({*BETWEEN_HOPS, *OURS, HOP} - {b"host"}))
def test_what_ends_at_a_hop_and_what_the_client_writes_does_not_reach_the_pool(name: bytes) -> None:
    headers = [(b"a", b"1"), (name, b"x"), (b"b", b"2"), (name, b"y")]
    assert from_stranger(headers) == [(b"a", b"1"), (b"b", b"2"), *OF_STRANGER]
    assert from_proxy(headers) == [(b"a", b"1"), (b"b", b"2"), *OF_PROXY]


def test_the_head_says_what_counts_here_and_a_repeated_field_is_joined() -> None:
    head = read(
        [
            (b"host", b"a"),
            (b"content-length", b"17"),
            (b"upgrade", b"websocket"),
            (b"host", b"b"),
            (b"transfer-encoding", b"gzip"),
            (b"transfer-encoding", b"chunked"),
            (b"upgrade", b"h2c"),
        ],
        trusted=False,
    )
    assert (head.host, head.coding, head.upgrade) == (b"a, b", b"gzip, chunked", b"websocket, h2c")
    assert (head.length, head.looped, head.kept) == (17, False, [])
    nothing = read([], trusted=False)
    assert (nothing.host, nothing.coding, nothing.upgrade, nothing.length, nothing.session) == (
        None,
        None,
        None,
        -1,
        None,
    )
    assert read([(HOP, b"")], trusted=True).looped


@pytest.mark.parametrize("host", [b"a", b"api.example:8000", b"10.0.0.1", b"A-1.b:"])
def test_an_ordinary_head_needs_no_closer_look(host: bytes) -> None:
    assert read([(b"host", host), (b"upgrade-insecure-requests", b"1")], trusted=False).is_plain


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [(b"host", b"")],
        [(b"host", b":80")],
        [(b"host", b"a b")],
        [(b"host", b"a\0")],
        [(b"host", b"a:b")],
        [(b"host", b"[::1]:80")],
        [(b"host", b"a"), (b"host", b"a")],
        [(b"host", b"a"), (b"transfer-encoding", b"chunked")],
        [(b"host", b"a"), (b"upgrade", b"websocket")],
        [(b"host", b"a"), (HOP, b"1")],
    ],
)
def test_what_is_not_ordinary_needs_a_closer_look(headers: Fields) -> None:
    assert not read(headers, trusted=False).is_plain


@pytest.mark.parametrize(
    ("stated", "length"),
    [
        (b"0", 0),
        (b"0010", 10),
        (b"", -1),
        (b"-1", -1),
        (b"1e3", -1),
        (b"12 ", -1),
        (b"9" * 40, 999_999_999_999_999_999),
    ],
)
def test_a_stated_length_is_digits_alone_and_stays_within_bounds(stated: bytes, length: int) -> None:
    assert read([(b"content-length", stated)], trusted=False).length == length


@pytest.mark.parametrize("value", [b"x-a, X-B", b"close ,\tX-A\t,,x-b", b"keep-alive,x-a,x-b,"])
def test_what_connection_names_is_removed_in_any_case_and_spacing(value: bytes) -> None:
    headers = [(b"x-a", b"1"), (b"connection", value), (b"x-b", b"2"), (b"x-c", b"3"), (b"x-a", b"4")]
    assert from_stranger(headers) == [(b"x-c", b"3"), *OF_STRANGER]


def test_what_several_connection_fields_name_is_removed_wherever_they_stand() -> None:
    headers = [(b"connection", b"x-a"), (b"x-a", b"1"), (b"x-b", b"2"), (b"connection", b"x-b"), (b"x-c", b"3")]
    assert from_stranger(headers) == [(b"x-c", b"3"), *OF_STRANGER]


def test_a_header_of_the_caller_is_removed_where_it_names_it_without_exception() -> None:
    headers = [
        (b"authorization", b"secret"),
        (b"content-type", b"a/b"),
        (b"connection", b"Authorization, content-type"),
    ]
    assert from_stranger(headers) == OF_STRANGER


def test_nobody_can_have_removed_what_the_frontend_says() -> None:
    everything = b", ".join(name for name, _ in OF_STRANGER)
    assert from_stranger([(b"connection", everything)]) == OF_STRANGER
    assert from_proxy([(b"connection", everything), (b"x-forwarded-for", b"192.0.2.7")]) == OF_PROXY


@pytest.mark.parametrize(
    "name",
    [
        b"forwarded",
        b"x-forwarded-for",
        b"x-forwarded-host",
        b"x-forwarded-port",
        b"x-forwarded-prefix",
        b"x-forwarded-proto",
        b"x-forwarded-server",
        b"x-real-ip",
    ],
)
def test_what_a_stranger_claims_to_forward_is_dropped(name: bytes) -> None:
    assert from_stranger([(name, b"127.0.0.1"), (b"a", b"1"), (name, b"127.0.0.2")]) == [(b"a", b"1"), *OF_STRANGER]


def test_a_trusted_proxy_is_appended_to_the_chain_which_becomes_one_field() -> None:
    headers = [(b"x-forwarded-for", b"192.0.2.7"), (b"a", b"1"), (b"x-forwarded-for", b"198.51.100.1, 10.9.9.9")]
    assert from_proxy(headers) == [
        (b"a", b"1"),
        (b"x-forwarded-for", b"192.0.2.7, 198.51.100.1, 10.9.9.9, 10.0.0.1"),
        *OF_PROXY[1:],
    ]


def test_an_empty_chain_of_a_proxy_leaves_no_comma() -> None:
    assert from_proxy([(b"x-forwarded-for", b"")]) == OF_PROXY


def test_the_scheme_and_the_host_that_a_trusted_proxy_was_asked_for_are_kept() -> None:
    headers = [
        (b"x-forwarded-proto", b"https"),
        (b"x-forwarded-host", b"api.example"),
        (b"forwarded", b"for=192.0.2.7"),
        (b"x-real-ip", b"192.0.2.7"),
        (b"x-forwarded-port", b"443"),
    ]
    assert from_proxy(headers) == [*headers, (b"x-forwarded-for", b"10.0.0.1"), *MARKS]


@pytest.mark.parametrize("host", [None, b""])
def test_a_host_that_is_not_there_is_not_forwarded(host: bytes | None) -> None:
    without = [field for field in OF_STRANGER if field[0] != b"x-forwarded-host"]
    assert from_stranger([], host=host) == without
    assert b"x-forwarded-host" not in dict(from_proxy([], host=host))


@pytest.mark.parametrize(
    ("peer", "written"),
    [
        ("2001:db8::1", b"2001:db8::1"),
        ("2001:0DB8::0001", b"2001:db8::1"),
        ("::ffff:192.0.2.7", b"192.0.2.7"),
        ("", b"unknown"),
        ("a\r\nb: c", b"unknown"),
    ],
)
def test_an_address_is_written_in_one_way_and_what_is_none_is_unknown(peer: str, written: bytes) -> None:
    assert dict(from_stranger([], peer=peer))[b"x-forwarded-for"] == written


NAMES = st.sampled_from(
    [*BETWEEN_HOPS, *sorted(OURS - {b"host"}), HOP, b"x-forwarded-for", b"forwarded", b"accept", b"x-a", b"x-b"]
)
VALUES = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=8).map(str.encode)
FIELDS = st.lists(st.tuples(NAMES, st.one_of(VALUES, st.sampled_from([b"x-a", b"X-B, accept", b"close"]))), max_size=10)


@given(FIELDS, st.booleans())
def test_the_upstream_client_can_send_whatever_comes_out(headers: Fields, trusted: bool) -> None:
    made = crossing(headers, "::1", "http", b"h", trusted=trusted)
    assert WRITER.write(RequestHead(b"POST", b"/v1/completions", made), b" HTTP/1.1\r\n", b"{}") is not None
    assert [name for name, _ in made].count(b"x-forwarded-for") == 1
    assert [name for name, _ in made].count(HOP) == 1


@given(FIELDS)
def test_what_passes_is_what_came_in_its_order(headers: Fields) -> None:
    named = {option.strip().lower() for name, value in headers if name == b"connection" for option in value.split(b",")}
    gone = {*BETWEEN_HOPS, *OURS, HOP, b"x-forwarded-for", b"forwarded", *named}
    assert from_stranger(headers) == [field for field in headers if field[0] not in gone] + OF_STRANGER


# ------------------------------------------------------------------------------------------------- towards the caller


def test_a_reply_passes_with_names_in_lower_case_and_everything_else_as_it_came() -> None:
    headers = [
        (b"Date", b"Mon, 30 Nov 2026 13:04:16 GMT"),
        (b"Server", b"uvicorn"),
        (b"Set-Cookie", b"a=1"),
        (b"Content-Type", b"text/event-stream"),
        (b"set-cookie", b"b=2"),
        (b"Content-Encoding", b"gzip"),
        (b"Content-Length", b"3"),
        (b"Location", b"/elsewhere"),
        (b"X-Latin", b"\xe9"),
    ]
    lowered = [(name.lower(), value) for name, value in headers]
    assert TOWARDS_CALLER(headers) == [*lowered, (b"via", b"1.1 gdsvc")]


@pytest.mark.parametrize("name", BETWEEN_HOPS)
def test_what_ends_at_a_hop_does_not_reach_the_caller(name: bytes) -> None:
    headers = [(b"A", b"1"), (name.title(), b"x"), (b"B", b"2")]
    assert TOWARDS_CALLER(headers) == [(b"a", b"1"), (b"b", b"2"), (b"via", b"1.1 gdsvc")]


def test_what_connection_of_a_reply_names_is_removed() -> None:
    headers = [(b"X-A", b"1"), (b"CONNECTION", b"Keep-Alive, x-a"), (b"Via", b"1.0 pool"), (b"x-B", b"2")]
    assert TOWARDS_CALLER(headers) == [(b"via", b"1.0 pool"), (b"x-b", b"2"), (b"via", b"1.1 gdsvc")]


# ------------------------------------------------------------------------------------------------- trust


@pytest.mark.parametrize(
    ("peer", "is_trusted"),
    [
        ("10.0.0.0", True),
        ("10.255.255.255", True),
        ("11.0.0.0", False),
        ("::1", True),
        ("::2", False),
        ("::ffff:10.0.0.1", True),
        ("::ffff:11.0.0.1", False),
        ("10.0.0", False),
        ("", False),
        ("10.0.0.1:80", False),
    ],
)
def test_only_peers_in_the_networks_are_trusted(peer: str, is_trusted: bool) -> None:
    trusted = Trusted(["10.0.0.0/8", "::1/128"])
    assert [trusted(peer), trusted(peer)] == [is_trusted, is_trusted]


def test_without_networks_nobody_is_trusted() -> None:
    assert not Trusted(())("127.0.0.1")


def test_a_network_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="does not appear to be"):
        Trusted(["10.0.0.0/33"])


def test_peers_are_remembered_up_to_a_bound_and_two_of_a_kind_do_not_mix() -> None:
    trusted, others = Trusted(["10.0.0.0/8"]), Trusted(["192.0.2.0/24"])
    for number in range(MOST_PEERS + 10):
        assert trusted(f"10.0.{number // 256}.{number % 256}")
    assert trusted._known.cache_info().currsize == MOST_PEERS
    assert not others("10.0.0.1")


# ------------------------------------------------------------------------------------------------- sessions


def test_the_header_of_a_session_that_counts_is_the_first_of_our_list_wherever_it_stands() -> None:
    headers = [(name, name.upper()) for name in reversed(SESSION_NAMES)]
    for name in SESSION_NAMES:
        assert session(headers) == name.upper().decode()
        headers.remove((name, name.upper()))
    assert session(headers) is None


def test_an_empty_name_of_a_session_is_none_and_the_first_of_several_counts() -> None:
    headers = [(b"x-dynamo-session-id", b""), (b"session-id", b"a"), (b"session-id", b"b"), (b"x-session-id", b"c")]
    assert session(headers) == "a"
    assert session(headers[:1]) is None


def test_a_long_name_of_a_session_still_tells_sessions_apart_and_is_short() -> None:
    longest = b"s" * MOST_SESSION_BYTES
    assert session([(b"session-id", longest)]) == longest.decode()
    names = {session([(b"session-id", longest + tail)]) for tail in (b"1", b"2", b"1")}
    assert len(names) == 2
    assert all(name is not None and len(name) <= MOST_SESSION_BYTES for name in names)


def test_a_session_may_have_any_bytes() -> None:
    assert session([(b"session-id", b"\xff\xe9")]) == "\xff\xe9"
