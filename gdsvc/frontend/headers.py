"""Which header fields cross the frontend, each way, and what it adds of its own.

Order, repetitions and values of everything else stay as they came. Framing and Host are the business of who sends.

What Connection names ends here whatever it is, Authorization and Content-Type too: RFC 9110 section 7.6.1 makes no
exception, and who names what it must not harms nobody else. What we add comes later, so nobody can have it removed.
"""

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from itertools import chain, product, zip_longest
from typing import Final, TypeAlias

from gdsvc._heads import CallerHead, Meanings, Sieve
from gdsvc.frontend.upstream.request import OURS

Fields: TypeAlias = Iterable[tuple[bytes, bytes]]

HOP: Final = b"x-dynamo-global-router-hop"
"""Name, in lower case, of the header that says a request has come through a frontend already."""

SESSION_NAMES: Final = (b"x-dynamo-session-id", b"x-claude-code-session-id", b"session-id", b"x-session-id")
"""Headers that name a session, in lower case, the first that is there counts: ours, then those that agents send."""

MOST_SESSION_BYTES: Final = 256  # a UUID takes 36; sessions are kept in a table, so that longer names must not be
MOST_PEERS: Final = 8192  # whose address is remembered: more than a frontend has connections at most times

# RFC 9110 section 7.6.1, and two kinds more: credentials and challenges of a proxy (sections 11.7.1 and 11.7.2), which
# end at a proxy and are none of the pool's business or of the caller's; Trailer, since the trailers it promises are
# given to us by neither side (section 6.5.1 lets a recipient drop them).
_BETWEEN_HOPS: Final = frozenset(
    (
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
    )
)
_FOR: Final = b"x-forwarded-for"
_PROTO: Final = b"x-forwarded-proto"
_HOST: Final = b"x-forwarded-host"
_TOLD: Final = frozenset((_FOR, _PROTO, _HOST))  # of the caller, by each proxy to the next
# Who called, by which scheme, host and port, as a proxy before us says it; from anybody else it may be a lie.
_CLAIMS: Final = frozenset(
    (
        b"forwarded",
        b"x-forwarded-port",
        b"x-forwarded-prefix",
        b"x-forwarded-server",
        b"x-real-ip",
        _FOR,
        _HOST,
        _PROTO,
    )
)


def _misspelt(names: Iterable[bytes]) -> frozenset[bytes]:
    """The names with a low line in place of a hyphen or more: servers that speak WSGI or CGI take them for the same."""
    return frozenset(
        b"".join(chain(*zip_longest(words, joints, fillvalue=b"")))
        for name in names
        for words in (name.split(b"-"),)
        for joints in product((b"-", b"_"), repeat=len(words) - 1)
        if b"_" in joints
    )


_FROM_NOBODY: Final = _BETWEEN_HOPS | OURS | _misspelt(_BETWEEN_HOPS | OURS | {HOP} | _CLAIMS)  # passed on unaware
_MEANINGS: Final = Meanings(_FROM_NOBODY, _CLAIMS, HOP, SESSION_NAMES)
_VIA: Final = (b"via", b"1.1 gdsvc")
TOWARDS_CALLER: Final = Sieve(_BETWEEN_HOPS, _VIA)
"""Gives the headers of a reply as the caller gets them, names in lower case.

Date and Server of the pool pass, and the server then adds none of its own; so does Content-Length, by which it notices
a body that ends early. Set-Cookie passes: that no cookie is kept means here.
"""

_OUR_MARKS: Final = (_VIA, (HOP, b"1"))


class Trusted:
    """Says whose X-Forwarded-* headers are believed: peers in one of `networks` (such as `10.0.0.0/8` or `::1/128`).

    Raises ValueError for what is no network.
    """

    def __init__(self, networks: Iterable[str]) -> None:
        self._networks = tuple(ip_network(network, strict=False) for network in networks)
        self._known = lru_cache(MOST_PEERS)(self._judge)

    def __bool__(self) -> bool:
        return bool(self._networks)

    def __call__(self, peer: str) -> bool:
        """Whether `peer` is one of them; an IPv4 address that is mapped into IPv6 counts as the IPv4 address."""
        return bool(self._networks) and self._known(peer)

    def _judge(self, peer: str) -> bool:
        address = _parsed(peer)
        return address is not None and any(address in network for network in self._networks)


def read(headers: Fields, *, trusted: bool) -> CallerHead:
    """What a request's head says, names in lower case. With `trusted` its X-Forwarded-* are kept."""
    return CallerHead(headers, _MEANINGS, trusted)


def towards_pool(head: CallerHead, peer: str, scheme: str) -> list[tuple[bytes, bytes]]:
    """The headers of a request as a pool gets them; `head` is used up.

    `peer` is the address that the caller connected from by `scheme`. Where it was read as `trusted`, its
    X-Forwarded-For goes on with `peer` at the end, and its -Proto and -Host are kept; else all that it says of that
    kind is dropped. Those of OURS, which the upstream client writes, are left out.
    """
    kept, host = head.kept, head.host
    if head.trusted:
        kept = _continued(kept, _address(peer), scheme, host)
    else:
        kept += ((_FOR, _address(peer)), (_PROTO, scheme.encode()))
        if host:
            kept.append((_HOST, host))
    kept += _OUR_MARKS
    return kept


def session_of(value: bytes) -> str:
    """The name of the session that the value of a header stands for.

    At most MOST_SESSION_BYTES long: a longer one is replaced by its digest.
    """
    if len(value) <= MOST_SESSION_BYTES:
        return value.decode("latin-1")
    return blake2b(value, digest_size=16).hexdigest()


def _continued(
    kept: list[tuple[bytes, bytes]], address: bytes, scheme: str, host: bytes | None
) -> list[tuple[bytes, bytes]]:
    """What a trusted proxy sent, with our part of X-Forwarded-*; the chain in one field, as many read but one."""
    told = [field for field in kept if field[0] in _TOLD]
    names = [name for name, _ in told]
    if _FOR in names:
        address = b", ".join([value for name, value in told if name == _FOR and value] + [address])
        kept = [field for field in kept if field[0] != _FOR]
    kept.append((_FOR, address))
    if _PROTO not in names:
        kept.append((_PROTO, scheme.encode()))
    if host and _HOST not in names:
        kept.append((_HOST, host))
    return kept


@lru_cache(MOST_PEERS)
def _address(peer: str) -> bytes:
    """As it is written into X-Forwarded-For."""
    address = _parsed(peer)
    return str(address).encode() if address is not None else b"unknown"  # RFC 7239 section 6.2


def _parsed(peer: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(peer)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped
