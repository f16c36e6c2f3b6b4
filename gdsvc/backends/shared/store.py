"""A store of leased members whose registrations an engine keeps: what is written here and what is read from elsewhere.

A heartbeat is answered once the engine has written it. Nothing awaits between what is shown and its event; what has
changed during an await is looked at again after it.
"""

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable
from enum import Enum, auto
from math import inf
from typing import Protocol, TypeVar

from msgspec import Struct

from gdsvc import model
from gdsvc.backends.indexed import OnChange, ignore
from gdsvc.backends.leased import LeasedStore
from gdsvc.backends.registered import RegisteredPools, RegisteredReplicas
from gdsvc.backends.shared.reading import ReadingTime, Trust
from gdsvc.backends.shared.sightings import News, Renewal, Sightings
from gdsvc.errors import GdsvcError, Unavailable
from gdsvc.model import Lease, PoolKey, PoolListing, PoolRegistration, RouterReplica
from gdsvc.pool_discovery.directory import Source
from gdsvc.pool_discovery.explain import instant
from gdsvc.pool_discovery.lease_clock import LeaseClock
from gdsvc.pool_discovery.watch import Completeness

Item = TypeVar("Item")
Key = TypeVar("Key")
Payload = TypeVar("Payload")

RETRY_SECS = 2  # of who asks for a list before the first reading
ELSEWHERE_DELETED = "taken out by a DELETE through another replica"


class Registration(Struct, frozen=True, gc=False):
    """A registration as a store keeps it: `payload` is its encoding (model.encode_listing, model.encode)."""

    version: int
    payload: bytes


class Written(Struct, frozen=True, gc=False):
    """What a write of a registration came to.

    `registration` is what the store holds now: what was to be written, or what another wrote after that had come in.
    """

    renewal: Renewal
    registration: Registration


class Renewed(Protocol):
    """A renewal that was found in the store, and whose."""

    @property
    def name(self) -> bytes: ...
    @property
    def renewal(self) -> Renewal: ...


Said = TypeVar("Said", bound=Renewed)


class Engine(Protocol):
    """Writes to a shared store, for one kind of member. A name is a sort key (bytes that tell members apart).

    Each call returns once its write is done. A write whose outcome is not known is repeated, within the time that a
    heartbeat has; then, and where the store refuses, it raises Unavailable.
    """

    async def write(self, name: bytes, payload: bytes) -> Written:
        """Makes `payload` the registration of `name`, under a later version unless it is that already, and renews it.

        Of two that change a name at one time the later wins: where another's change reached the store after this call
        began, that stays, and is returned.
        """
        ...

    async def renew(self, name: bytes, version: int) -> Renewal | None:
        """Renews the registration of `version`; None where it is not there any more and must be written again."""
        ...

    async def find(self, name: bytes) -> Renewal | None:
        """The last renewal of `name` in the store, as it is now; None where there is none."""
        ...

    async def deregister(self, name: bytes, version: int) -> Renewal | None:
        """Ends the registration of `version`; what readers will see of that, None where it is nothing."""
        ...


class Shown(Enum):
    """What `show` made of an item."""

    NOTHING = auto()
    TAKEN = auto()
    UNREADABLE = auto()  # the registration is none of ours: told by the log, and counted, by the engine


class Shared(Struct, frozen=True):
    """How a store is shared: who writes, and how often its reader means to look, or to confirm that it sees all."""

    engine: Engine
    read_every_secs: float
    unix_now: Callable[[], float] = time.time


class SharedStore(LeasedStore[Item, Key, Payload]):
    """Directory and Registrar; a subclass calls `_share` once it is made."""

    def _share(self, shared: Shared) -> None:
        self._engine = shared.engine
        self._unix_now = shared.unix_now
        self._reading = ReadingTime(self._ttl, shared.read_every_secs)
        self._sightings = Sightings()
        self._trust = Trust.UNREAD
        self._as_of = self._started_at

    @abstractmethod
    def _decode(self, stored: bytes) -> Payload:
        """The payload that `_encode` made `stored` of. Raises NotJson, Invalid."""

    @abstractmethod
    def _encode(self, payload: Payload) -> bytes:
        """What the store keeps of `payload`; equal for what says the same."""

    # -- reading

    def advance(self) -> float:
        """Ends at most EXPIRY_SLICE leases; 0 where more are due, inf where only a reading can end the next."""
        at = self._clock.now()
        trust = self._reading.trust(at)
        if trust is not self._trust:
            self._trusted_as(trust)
        self._show_due(self._reading.heard_at(at))
        self._end_leases(self._reading.judged_at)
        return 0.0 if self._index.next_deadline <= self._reading.judged_at else inf

    def view(self) -> tuple[int, Completeness]:
        """Revision and completeness, brought up to now. Raises Unavailable before the first reading."""
        self.advance()
        if self._trust is Trust.UNREAD:
            raise Unavailable("the store of registrations has not been read yet", RETRY_SECS)
        return self._index.revision, self._completeness

    def sources(self) -> tuple[Source, ...]:
        """The store is the one source here; `as_of` is when it came to be as it is."""
        complete = self._trust is Trust.WHOLE
        return (Source(f"{self._members.name}-registrations", complete, self._as_of, self._trust.value),)

    def _trusted_as(self, trust: Trust) -> None:
        before, self._trust = self._trust, trust
        self._as_of = instant(self._unix_now())
        completeness = Completeness.EXACT if trust is Trust.WHOLE else Completeness.ESTIMATED
        if completeness is self._completeness and before is not Trust.UNREAD:
            self._begin_anew()  # what lists say of their sources has changed
        self._complete_as(completeness)

    def _now(self) -> float:
        return self._reading.heard_at(self._clock.now())

    def _ttl_of(self, name: bytes) -> float:
        return self._sightings.lease_secs(name) or self._ttl

    # -- told by the reader

    @property
    def trust(self) -> Trust:
        """As of the last step in time."""
        return self._trust

    def begin(self) -> float:
        """When a pass of reading begins: what `read` is to be told of it."""
        return self._clock.now()

    def read(self, began_at: float) -> None:
        """A pass that began then saw, and has shown, everything that had been written by then."""
        self._reading.read(began_at)
        self.advance()

    def unread(self, since: float | None = None) -> None:
        """A pass failed that began at `since`, or just now."""
        self._reading.unread(self._clock.now() if since is None else since)
        self.advance()

    def renewed(self, found: Iterable[Said]) -> list[Said]:
        """Takes the renewals that were seen before or are of the registration known here; gives the others.

        Those that `outdates` has a word on are among the others. Most are taken here, and of a whole table this costs
        half as much as to `show` them one by one. Not bounded: give few.
        """
        now, unix_now = self._now(), self._unix_now()
        left: list[Said] = []
        for each in found:
            name, renewal = each.name, each.renewal
            news = self._sightings.news(name, renewal, unix_now)
            is_taken = news is News.RENEWED and not self._lacks(name, renewal, news) and not self._is_fixed(name)
            if is_taken:
                self._sightings.saw(name, renewal)
                self._index.extend(name, now, renewal.lease_secs)
            if not (is_taken or news is News.NOTHING) or self._sightings.outdates(name, renewal):
                left.append(each)
        return left

    def lacks(self, name: bytes, renewal: Renewal) -> bool:
        """Whether the registration is needed to show what `renewal` says."""
        return self._lacks(name, renewal, self._sightings.news(name, renewal, self._unix_now()))

    def _lacks(self, name: bytes, renewal: Renewal, news: News) -> bool:
        if news is News.RENEWED:
            return name not in self._index or renewal.version > self._sightings.version(name)
        return news is News.VERSION and name in self._index

    def show(self, name: bytes, renewal: Renewal, registration: Registration | None = None) -> Shown:
        """Shows what was found of `name`; where it `lacks` the registration, with that, or else nothing is shown."""
        news = self._sightings.news(name, renewal, self._unix_now())
        if news is News.NOTHING:
            return Shown.NOTHING
        lacking = self._lacks(name, renewal, news)
        if self._is_fixed(name) or (lacking and registration is None):
            return Shown.NOTHING
        payload = self._payload_of(name, registration) if lacking and registration is not None else None
        if lacking and payload is None:
            return Shown.UNREADABLE
        self._sightings.saw(name, renewal, registration.version if registration is not None else 0)
        if news is News.GONE:
            self._deregister(name, ELSEWHERE_DELETED)
        elif payload is not None:
            self._show(name, payload)
        if news is News.RENEWED and name in self._index:
            self._index.extend(name, self._now(), renewal.lease_secs)
        return Shown.TAKEN

    def outdates(self, name: bytes, renewal: Renewal) -> int:
        """The later version that `renewal`, the last one seen, ought to name, so that all replicas hear of it; 0: none.

        It was written by a replica that had not read that version yet, over the renewal that did name it.
        """
        return self._sightings.outdates(name, renewal)

    def gone(self, name: bytes) -> None:
        """The store holds nothing of `name` any more, and somebody meant that: it is not only old."""
        if self._is_fixed(name):
            return
        self._sightings.forget({name})
        self._deregister(name, ELSEWHERE_DELETED)

    def prune(self, present: set[bytes]) -> None:
        """Forgets the names that a whole pass did not find, save those listed: their leases go on."""
        self._sightings.forget({name for name in self._sightings.absent(present) if name not in self._index})

    def _payload_of(self, name: bytes, registration: Registration) -> Payload | None:
        """What a registration says; None where it is none, or that of another name."""
        try:
            payload = self._decode(registration.payload)
            return payload if self._named(payload) == name else None
        except GdsvcError:
            return None

    def _show(self, name: bytes, payload: Payload) -> None:
        was_listed = name in self._index
        cause = "found in the store, written through another replica"
        if self._take(name, payload, None, cause, self._now()) and was_listed:
            self._index.forget_bodies(name)  # they say what was shown before

    # -- writing

    async def renew(self, body: bytes, source: str | None = None) -> bool:
        """Renews the member whose last registration had exactly these bytes; False: register it. Raises Unavailable."""
        name = self._index.key_of(body)
        if name is None:
            return False
        renewal = await self._engine.renew(name, self._sightings.version(name))
        if renewal is None or name not in self._index:  # it left while this was written
            return False
        self._sightings.saw(name, renewal)
        self._beat(name, None, source, self._now(), fresh=False)
        return True

    async def register(self, payload: Payload, body: bytes | None = None, source: str | None = None) -> Lease:
        """Registers or renews; of two payloads the one that reached the store last wins.

        What was read of the store is not read again: a replica that has just started renews what it has found there.

        Raises LimitReached, Conflict for a fixed id, Unavailable where it could not be written.
        """
        name = self._named(payload)
        self._admit(name)
        if self._says(name, payload) and await self._renewed(name, payload, body, source):
            return self._lease
        stored = self._encode(payload)
        written = await self._engine.write(name, stored)
        if written.registration.payload == stored:
            self._wrote(name, payload, body, source, written)
        elif (later := self._payload_of(name, written.registration)) is not None:
            self._wrote(name, later, None, source, written)
        return self._lease

    async def _renewed(self, name: bytes, payload: Payload, body: bytes | None, source: str | None) -> bool:
        renewal = await self._engine.renew(name, self._sightings.version(name))
        if renewal is None or name not in self._index:
            return False
        self._sightings.saw(name, renewal)
        unchanged = self._says(name, payload)  # while this was written
        self._beat(name, body if unchanged else None, source, self._now(), fresh=False)
        return True

    def _wrote(self, name: bytes, payload: Payload, body: bytes | None, source: str | None, written: Written) -> None:
        """Shows what the store holds now, unless a later change was seen while it was written."""
        latest = written.registration.version >= self._sightings.version(name)
        self._sightings.saw(name, written.renewal, written.registration.version)
        now = self._now()
        if latest:
            fresh = self._take(name, payload, source, "first heartbeat", now)
            self._beat(name, body, source, now, fresh=fresh)
        elif name in self._index:
            self._beat(name, None, source, now, fresh=False)

    async def deregister(self, key: Key, source: str | None = None) -> bool:
        """Takes the member out, here at once. Raises Conflict for a fixed id, Unavailable."""
        name = self._name(key)
        self.advance()  # what has lapsed is not there to be taken out
        if name not in self._index and not await self._lives_elsewhere(name):
            return False
        renewal = await self._engine.deregister(name, self._sightings.version(name))
        if renewal is not None:
            self._sightings.saw(name, renewal)
        self._deregister(name, "taken out by a DELETE", source)
        return True

    async def _lives_elsewhere(self, name: bytes) -> bool:
        """Whether another replica has written what has not been read here yet."""
        renewal = await self._engine.find(name)
        return renewal is not None and self._sightings.news(name, renewal, self._unix_now()) is News.RENEWED


class SharedPoolStore(SharedStore[PoolListing, PoolKey, PoolRegistration], RegisteredPools):
    """PoolDirectory, PoolRegistrar and Explainer. `max_pools` refuses more with LimitReached."""

    def __init__(  # noqa: PLR0913 - one composition root calls it
        self,
        lease: Lease,
        clock: LeaseClock,
        started_at: str,
        shared: Shared,
        on_change: OnChange = ignore,
        *,
        max_pools: int | None = None,
    ) -> None:
        RegisteredPools.__init__(
            self, lease, clock, started_at, on_change, max_pools=max_pools, unix_now=shared.unix_now
        )
        self._share(shared)

    def _decode(self, stored: bytes) -> PoolRegistration:
        return model.decode_registration(stored)

    def _encode(self, payload: PoolRegistration) -> bytes:
        return model.encode_listing(payload)


class SharedReplicaStore(SharedStore[RouterReplica, str, RouterReplica], RegisteredReplicas):
    """ReplicaDirectory and ReplicaRegistrar. The replicas in `fixed` are always listed and cannot be changed."""

    def __init__(  # noqa: PLR0913 - one composition root calls it
        self,
        lease: Lease,
        clock: LeaseClock,
        started_at: str,
        shared: Shared,
        on_change: OnChange = ignore,
        *,
        fixed: Iterable[RouterReplica] = (),
    ) -> None:
        RegisteredReplicas.__init__(self, lease, clock, started_at, on_change, fixed)
        self._share(shared)

    def _decode(self, stored: bytes) -> RouterReplica:
        return model.decode_router(stored)

    def _encode(self, payload: RouterReplica) -> bytes:
        return model.encode(payload)
