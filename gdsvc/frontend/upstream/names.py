"""Which addresses a host has: looked up again after a while and after a failure, the last known kept meanwhile."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import ip_address
from typing import Any, Final, NamedTuple, TypeAlias

_AGAIN_AFTER: Final = 1.0  # seconds between two look-ups of a name that fails, however many requests ask for it
_PATIENCE: Final = 1.0  # seconds that a look-up may take where the last known addresses would do
_MOST_NAMES: Final = 4096  # remembered; the one first seen is forgotten first


class Address(NamedTuple):
    """What a socket connects to."""

    family: int
    sockaddr: tuple[Any, ...]


Lookup: TypeAlias = Callable[[str, int], Awaitable[Sequence[Address]]]


class NameUnknown(OSError):
    """The name has no address, or none can be found out now."""


async def system_lookup(host: str, port: int) -> list[Address]:
    """The addresses of the system's resolver, in its order. Raises OSError and UnicodeError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(Address(family, sockaddr) for family, _, _, _, sockaddr in found))


class Addresses:
    """What is known of one name. Holds no clock."""

    def __init__(self, ttl: float) -> None:
        self._ttl = ttl
        self._known: list[Address] = []
        self._bad: set[Address] = set()
        self._due_at = float("-inf")
        self._looked_at = float("-inf")
        self._turn = -1
        self.fault = "no such name"

    def is_due(self, now: float) -> bool:
        """Whether to look the name up before it is used."""
        return now >= self._due_at

    @property
    def is_known(self) -> bool:
        """Whether there is one address at least."""
        return bool(self._known)

    def found(self, addresses: Sequence[Address], now: float) -> None:
        """A look-up has succeeded."""
        self._known = list(addresses)
        self._bad.clear()
        self._looked_at = now
        self._due_at = now + self._ttl

    def not_found(self, fault: str, now: float) -> None:
        """A look-up has failed; what is known stays."""
        self.fault = fault
        self._looked_at = now
        self._due_at = now + min(_AGAIN_AFTER, self._ttl)

    def failed(self, address: Address) -> None:
        """No connection to `address`: it is tried last from now on."""
        self._bad.add(address)
        if self._bad.issuperset(self._known):
            self._due_at = min(self._due_at, self._looked_at + _AGAIN_AFTER)

    def works(self, address: Address) -> None:
        """A connection to `address` stands."""
        self._bad.discard(address)

    def order(self) -> list[Address]:
        """All, in the order to try: each call begins with the next of those that are not known to fail."""
        good = [address for address in self._known if address not in self._bad]
        if good:
            self._turn = (self._turn + 1) % len(good)
            good = good[self._turn :] + good[: self._turn]
        return good + [address for address in self._known if address in self._bad]


class _Name:
    def __init__(self, ttl: float) -> None:
        self.addresses = Addresses(ttl)
        self.lock = asyncio.Lock()  # many ask, one looks


class Names:
    """The names that a client connects to."""

    def __init__(self, ttl: float, lookup: Lookup = system_lookup, *, patience: float = _PATIENCE) -> None:
        self._ttl = ttl
        self._lookup = lookup
        self._patience = patience
        self._names: dict[tuple[str, int], _Name] = {}

    async def find(self, host: str, port: int) -> Addresses:
        """What is known of the name, which is one address at least. Raises NameUnknown."""
        name = self._names.get((host, port)) or self._remember(host, port)
        addresses = name.addresses
        clock = asyncio.get_running_loop().time
        if addresses.is_due(clock()):
            async with name.lock:
                if addresses.is_due(clock()):
                    await self._look_up(addresses, host, port)
        if not addresses.is_known:
            raise NameUnknown(addresses.fault)
        return addresses

    def _remember(self, host: str, port: int) -> _Name:
        if len(self._names) >= _MOST_NAMES:
            del self._names[next(iter(self._names))]
        literal = _literal(host, port)
        name = self._names[host, port] = _Name(float("inf") if literal else self._ttl)
        if literal:
            name.addresses.found([literal], 0.0)
        return name

    async def _look_up(self, addresses: Addresses, host: str, port: int) -> None:
        clock = asyncio.get_running_loop().time
        try:
            async with asyncio.timeout(self._patience if addresses.is_known else None):
                found = await self._lookup(host, port)
        except (OSError, UnicodeError) as error:  # a timeout is an OSError
            addresses.not_found(_fault(error), clock())
        else:
            addresses.found(found, clock())


def _literal(host: str, port: int) -> Address | None:
    try:
        version = ip_address(host).version
    except ValueError:
        return None
    return Address(socket.AF_INET, (host, port)) if version == 4 else Address(socket.AF_INET6, (host, port, 0, 0))


def _fault(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"its name cannot be looked up: {error.strerror}"
    return "its name cannot be looked up"
