"""Tells that callers hang up while nobody reads from their connections.

granian reads no further than to bytes that wait behind a request, and so may never see the end of a connection. But it
runs in this process: the descriptor is found by the caller's address, and an epoll of our own watches it. That needs
no privilege, and /proc alone; without it nobody is found. What a caller's leaving means is decided elsewhere.
"""

import asyncio
import os
import select
import time
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Final, Generic, Protocol, TypeVar

from gdsvc import logs
from gdsvc.asgi.connections import RESET, Address, descriptors, peer_of

SEARCH_SECS: Final = 0.25  # between two searches at least: a connection is watched that much after it was asked for
_LEAST_REST: Final = 50  # times what the last search cost: searches take two hundredths of the time at most
_SLICE: Final = 256  # descriptors looked at in one turn of the loop: half a millisecond

log = logs.get("gdsvc.asgi.hangups")


class Caller(Hashable, Protocol):
    """Who is on the line; `client` is the caller's address as in the scope of its request."""

    @property
    def client(self) -> tuple[str, str]: ...


Whoever = TypeVar("Whoever")
C = TypeVar("C", bound=Caller)


class Search(Generic[Whoever]):
    """One look at all connections, for those of the callers `sought`. It is shown each by `saw`."""

    def __init__(self, sought: dict[Address, Whoever]) -> None:
        self.sought = sought
        self.found: dict[Address, int] = {}
        self._doubtful = set[Address]()
        self._resets = 0

    def saw(self, descriptor: int, address: Address) -> None:
        """`descriptor` is connected to `address`. One that has two connections may be at either: it is not found."""
        if address is RESET:
            self._resets += 1
        elif address in self.sought:
            if address in self.found:
                self._doubtful.add(address)
            self.found[address] = descriptor

    def ended(self) -> tuple[list[tuple[int, Whoever]], list[Whoever]]:
        """Everything was seen: who is where, and whose connections were reset.

        Those are who is nowhere, if there are as many resets at least. Else addresses are not what we take them for,
        and all that would be cut are requests of callers who wait.
        """
        here = [
            (descriptor, self.sought[address])
            for address, descriptor in self.found.items()
            if address in self.sought and address not in self._doubtful
        ]
        nowhere = [caller for address, caller in self.sought.items() if address not in self.found]
        return here, nowhere if len(nowhere) <= self._resets else []


class Hangups(Generic[C]):
    """Calls `hung_up` once when a caller that is watched has ended its stream, or its connection was reset.

    Holds a timer, and a descriptor of its own, while somebody is watched; `forget` everybody to release them. `shown`
    gives the descriptors that are open, and raises OSError where they cannot be listed: that is logged once.
    """

    def __init__(self, hung_up: Callable[[C], None], shown: Callable[[], Iterable[int]] = descriptors) -> None:
        self._hung_up = hung_up
        self._shown = shown
        self._loop = asyncio.get_running_loop()
        self._sought: dict[Address, C] = {}  # in the next search
        self._search: Search[C] | None = None  # under way
        self._timer: asyncio.Handle | None = None  # of the next search, or the next slice of this one
        self._spent_secs = 0.0  # on this search
        self._is_blind = False
        self._watched: dict[int, C] = {}  # by descriptor
        self._descriptors: dict[C, int] = {}
        self._epoll: select.epoll | None = None

    def watch(self, caller: C) -> None:
        """Tells when `caller`, of whom a request is in hand, hangs up: from the next search on."""
        self._sought[_address_of(caller)] = caller
        if self._timer is None:
            self._timer = self._loop.call_later(SEARCH_SECS, self._begin)

    def forget(self, caller: C) -> None:
        """Tells it no more."""
        if (descriptor := self._descriptors.pop(caller, None)) is not None:
            self._unwatch(descriptor)
            return
        address = _address_of(caller)
        for sought in (self._sought, {} if self._search is None else self._search.sought):
            if sought.get(address) is caller:
                del sought[address]

    # -- the search

    def _begin(self) -> None:
        self._timer = None
        if not self._sought:
            return
        try:
            shown = iter(self._shown())
        except OSError as error:
            self._sought.clear()
            self._tell_blind(error)
            return
        self._search, self._sought = Search(self._sought), {}
        self._spent_secs = 0.0
        self._go_on(self._search, shown)

    def _go_on(self, search: Search[C], shown: Iterator[int]) -> None:
        """Looks at the next slice of the descriptors, and after the last at what was found."""
        began_at = time.perf_counter()
        some = tuple(islice(shown, _SLICE))
        for descriptor in some:
            if descriptor not in self._watched and (address := peer_of(descriptor)) is not None:
                search.saw(descriptor, address)
        self._spent_secs += time.perf_counter() - began_at
        if some:
            self._timer = self._loop.call_soon(self._go_on, search, shown)
            return
        self._search = None
        rest_secs = max(SEARCH_SECS, self._spent_secs * _LEAST_REST)
        self._timer = self._loop.call_later(rest_secs, self._begin)
        self._end(search)

    def _end(self, search: Search[C]) -> None:
        here, reset = search.ended()
        for descriptor, caller in here:
            self._found(descriptor, caller)
        for caller in reset:
            self._hung_up(caller)

    def _tell_blind(self, error: OSError) -> None:
        if not self._is_blind:
            log.warning("hangups.unseen", error=os.strerror(error.errno or 0))
        self._is_blind = True

    # -- the watch

    def _found(self, descriptor: int, caller: C) -> None:
        if self._epoll is None:
            self._epoll = select.epoll()
            self._loop.add_reader(self._epoll.fileno(), self._look)
        try:
            self._epoll.register(descriptor, select.EPOLLRDHUP)  # resets and errors it tells unasked
        except OSError:  # closed since: whoever closed it knows
            return
        self._watched[descriptor] = caller
        self._descriptors[caller] = descriptor
        if peer_of(descriptor) != _address_of(caller):  # closed since, and given to another connection
            self.forget(caller)

    def _look(self) -> None:
        for descriptor, _ in () if self._epoll is None else self._epoll.poll(0):
            caller = self._watched.get(descriptor)
            if caller is not None:
                self.forget(caller)
                self._hung_up(caller)

    def _unwatch(self, descriptor: int) -> None:
        del self._watched[descriptor]
        if self._epoll is None:
            return
        with suppress(OSError):  # closed by its owner, and then out of the epoll by itself
            self._epoll.unregister(descriptor)
        if not self._watched:
            self._loop.remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._epoll = None


def _address_of(caller: Caller) -> Address:
    host, port = caller.client
    return host, int(port)
