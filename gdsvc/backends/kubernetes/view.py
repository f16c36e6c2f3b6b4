"""What is known of the Leases: told by a reflector and by our own writes, told on to the stores in bounded steps.

Decides which incarnation of a Lease counts, and up to when everything was seen. What a renewal means for a list, the
stores decide (backends/shared).
"""

from collections.abc import Callable
from itertools import islice
from math import inf
from typing import Final, Protocol, get_args

from gdsvc import logs, model
from gdsvc.backends.kubernetes import leases
from gdsvc.backends.kubernetes.echoes import NEVER, Echoes, Moment
from gdsvc.backends.kubernetes.leases import Member, Unreadable, Written
from gdsvc.backends.kubernetes.pacing import Pacing
from gdsvc.backends.shared.sightings import Renewal
from gdsvc.backends.shared.store import Registration, Shown
from gdsvc.errors import GdsvcError, NotJson
from gdsvc.kube import objects
from gdsvc.kube.watcher import Cause, Failed, Kind

STEP_LEASES: Final = 200  # of a whole list, told in one step: about 10 ms of the loop where all are new
LATE_SECS: Final = 3.0  # without an echo, though one is sent each second: reading fails
DEAD_SECS: Final = 3600.0  # without a renewal: its member left the lists long since, and whoever asks why has asked
CLEARED_AT_ONCE: Final = 100
UNREADABLE_TOLD: Final = 100  # names of Leases that the log tells of

log = logs.get("gdsvc.kubernetes")


class Kept(Protocol):
    """A store, as far as it is told; backends/shared has it."""

    def read(self, began_at: float) -> None: ...
    def unread(self) -> None: ...
    def show(self, name: bytes, renewal: Renewal, registration: Registration | None = None) -> Shown: ...
    def gone(self, name: bytes) -> None: ...
    def prune(self, present: set[bytes]) -> None: ...


def renewal_of(written: Written) -> Renewal:
    """The last renewal, as stores know it."""
    return Renewal(written.renewed, written.renewed_at, float(written.granted_secs), written.changes)


def registration_of(written: Written) -> Registration:
    """The registration, as stores know it."""
    return Registration(written.changes, written.registration)


class LeaseView:
    """A reflector's View and a writer's Ledger. `now` gives the moment; a Pulse calls `advance`."""

    def __init__(self, pacing: Pacing, now: Callable[[], Moment]) -> None:
        self.pacing = pacing
        self.echoes = Echoes()
        self._now = now
        self._stores: dict[Member, Kept] = {}
        self._known: dict[str, Written] = {}
        self._changed_at: dict[str, float] = {}  # when we saw the last renewal of a Lease, in lease time
        self._sort_keys: dict[str, bytes] = {}  # by the name of the Lease
        self._replaced: set[str] = set()  # uids of Leases that are gone, though the watch is still to say so
        self._held: dict[str, Written] = {}  # told by the watch before the answer to the write of ours that made it
        self._aside: dict[str, Written] = {}  # of the list that is being received
        self._to_tell: dict[str, Written] = {}  # of the last whole list
        self._list_echo = NEVER  # of the last whole list: up to when it holds everything
        self._telling = False
        self._told: set[bytes] = set()
        self._read_until = NEVER
        self._waiting_since = now().monotonic
        self._late = False
        self._unreadable: dict[str, str] = {}
        self.last_failure: Failed | None = None
        # All there can be from the start: scrapes, which run in a thread, so never meet a dictionary that grows.
        self.errors: dict[Kind, int] = dict.fromkeys(get_args(Kind), 0)
        self.relists: dict[Cause, int] = dict.fromkeys(get_args(Cause), 0)

    def bind(self, member: Member, store: Kept) -> None:
        """From now on `store` is told of members of this kind."""
        self._stores[member] = store

    # -- a writer's ledger

    def known(self, name: str) -> Written | None:
        """The newest that is known of a Lease."""
        return self._known.get(name)

    def sending(self, name: str, renewed: str) -> None:
        """A write with this stamp is about to be sent."""
        self.echoes.sending(name, renewed, self._now())

    def written(self, written: Written) -> None:
        """A write is done. Whoever asked for it tells the store."""
        self._held.pop(written.name, None)
        if written.uid in self._replaced:
            return
        self._take_incarnation(written)
        sent_at = self.echoes.sent_at(written.name, written.renewed)
        if sent_at is not None:
            self.pacing.renewed(written.name, sent_at.monotonic)
        self._know(written)

    def not_written(self, name: str) -> None:
        """A write came to nothing, as far as its asker is told."""
        held = self._held.pop(name, None)
        if held is not None:
            self._show(held)

    def taken_out(self, name: str) -> None:
        """Our own DELETE is done. Whoever asked for it tells the store."""
        known = self._known.pop(name, None)
        self._changed_at.pop(name, None)
        if known is not None:
            self._replaced.add(known.uid)
        self.pacing.gone(name)

    # -- told by the reflector

    def init(self) -> None:
        """A list begins; what one that broke off has taught is forgotten."""
        for name in self._aside.keys() - self._known.keys():
            self._sort_keys.pop(name, None)
        self._aside = {}

    def init_apply(self, item: objects.Lease) -> None:
        """A Lease of the list."""
        written = self._read(item)
        if written is not None:
            self._aside[written.name] = written

    def init_delete(self, item: objects.Lease) -> None:
        """A Lease left while the list was being received."""
        self._aside.pop(item.metadata.name, None)

    def init_done(self, cause: Cause) -> None:
        """The list is whole; what it lacks is gone, save what we have written since and are still to be told of."""
        listed, self._aside = self._aside, {}
        self.relists[cause] += 1
        self._replaced &= {written.uid for written in listed.values()}
        for name in [name for name in self._sort_keys if name not in listed and not self.echoes.pending(name)]:
            self._gone(name)
        echoes = [self.echoes.seen(name, written.renewed) for name, written in listed.items()]
        self._list_echo = max((echo for echo in echoes if echo is not None), default=NEVER)
        self._to_tell = listed
        self._telling = True
        self._tell_list()

    def apply(self, item: objects.Lease) -> None:
        """A Lease appeared or changed."""
        written = self._read(item)
        if written is None or written.uid in self._replaced:
            return
        self._to_tell.pop(written.name, None)  # which is older
        known = self._known.get(written.name)
        sent_at = self.echoes.seen(written.name, written.renewed)
        if sent_at is not None:
            self.echoes.told(sent_at)
        elif known is None or known.renewed != written.renewed:
            self.pacing.renewed(written.name, self.echoes.told_until.monotonic)
        if sent_at is not None and (known is None or known.renewed != written.renewed):
            self._held[written.name] = written
        else:
            self._tell(written)

    def delete(self, item: objects.Lease) -> None:
        """A Lease left."""
        name, uid = item.metadata.name, item.metadata.uid
        self._replaced.discard(uid)
        self._unreadable.pop(name, None)
        self._to_tell.pop(name, None)
        known = self._known.get(name)
        if known is None or known.uid == uid:
            self._gone(name)

    def completeness(self, *, stale: bool) -> None:
        """Not asked here: what echoes say is stricter."""

    def failed(self, failure: Failed) -> None:
        """Any error."""
        self.errors[failure.kind] += 1
        self.last_failure = failure

    # -- time

    def advance(self) -> float:
        """One bounded step of what is to be told; in how many seconds the next is due, 0 where it is due already."""
        if self._telling:
            self._tell_list()
        if self.echoes.told_until > self._read_until and not self._telling:
            self._read_until = self.echoes.told_until
            for store in self._stores.values():
                store.read(self._read_until.lease_time)
        self._say_whether_late()
        if self._late:
            for store in self._stores.values():
                store.unread()
        return 0.0 if self._telling else inf

    @property
    def unreadable(self) -> int:
        """How many Leases with our label say nothing, up to UNREADABLE_TOLD."""
        return len(self._unreadable)

    @property
    def synced(self) -> bool:
        """Whether everything that there was at some moment since the start has been seen."""
        return self._read_until is not NEVER

    @property
    def lag_secs(self) -> float:
        """For how long it is not certain that everything was seen."""
        return self._now().monotonic - max(self._read_until.monotonic, self._waiting_since)

    def dead(self) -> list[Written]:
        """Some of the Leases that nobody renews any more, by a clock that stood while nothing could be seen."""
        now = self._read_until.lease_time
        dead = (
            known
            for name, known in self._known.items()
            if now - self._changed_at[name] > max(DEAD_SECS, 2.0 * known.granted_secs)
        )
        return list(islice(dead, CLEARED_AT_ONCE))

    # -- how

    def _read(self, item: objects.Lease) -> Written | None:
        written = leases.read(item)
        reason = written.reason if isinstance(written, Unreadable) else self._name(written)
        if reason:
            self._say_unreadable(written.name, reason)
            return None
        return written if isinstance(written, Written) else None

    def _name(self, written: Written) -> str:
        """Learns the sort key of a Lease that is new; why there is none, else."""
        if written.name in self._sort_keys:
            return ""
        try:
            self._sort_keys[written.name] = _sort_key(written)
        except GdsvcError as error:
            return str(error)
        return ""

    def _tell_list(self) -> None:
        """The next step of the list."""
        for name in list(islice(self._to_tell, STEP_LEASES)):
            self._tell(self._to_tell.pop(name))
        self._telling = bool(self._to_tell)
        if not self._telling:
            present = set(self._sort_keys.values())
            for store in self._stores.values():
                store.prune(present)
            self.echoes.told(self._list_echo)

    def _tell(self, written: Written) -> None:
        """What the API server said on its own account."""
        self._take_incarnation(written)
        self._know(written)
        self._show(written)

    def _show(self, written: Written) -> None:
        store = self._stores.get(written.member)
        name = self._sort_keys.get(written.name)
        if store is None or name is None:
            return
        if store.show(name, renewal_of(written), registration_of(written)) is Shown.UNREADABLE:
            self._say_unreadable(written.name, "its registration is none")

    def _take_incarnation(self, written: Written) -> None:
        """Where the Lease was deleted and created anew unseen, its store hears that first."""
        known = self._known.get(written.name)
        if known is not None and known.uid != written.uid:
            self._replaced.add(known.uid)
            self._gone(written.name)

    def _know(self, written: Written) -> None:
        if written.name not in self._sort_keys:
            self._name(written)
        known = self._known.get(written.name)
        if known is None or known.renewed != written.renewed:
            self._changed_at[written.name] = self._now().lease_time
        if known is None or known.changes <= written.changes:
            self._known[written.name] = written

    def _gone(self, name: str) -> None:
        known = self._known.pop(name, None)
        self._changed_at.pop(name, None)
        self._held.pop(name, None)
        self.pacing.gone(name)
        self.echoes.forget(name)
        sort_key = self._sort_keys.pop(name, None)
        for member, store in self._stores.items():
            if sort_key is not None and (known is None or known.member is member):
                store.gone(sort_key)

    def _say_whether_late(self) -> None:
        late = self.lag_secs >= LATE_SECS
        if late != self._late:
            self._late = late
            say = log.warning if late else log.info
            say("kubernetes.leases_not_seen" if late else "kubernetes.leases_seen", lag_secs=round(self.lag_secs, 1))

    def _say_unreadable(self, name: str, reason: str) -> None:
        if name not in self._unreadable and len(self._unreadable) < UNREADABLE_TOLD:
            self._unreadable[name] = reason
            log.warning("kubernetes.unreadable_lease", lease=name, reason=reason)


def _sort_key(written: Written) -> bytes:
    """What stores call the member. Raises NotJson, Invalid."""
    match written.member:
        case Member.POOL:
            key = model.decode_registration(written.registration).key
            name, sort_key = model.pool_id(key), model.sort_key(key)
        case Member.ROUTER:
            router = model.decode_router(written.registration)
            name, sort_key = leases.router_lease_name(router.id), router.id.encode()
        case Member.REPLICA:
            return written.name.encode()
    if name != written.name:
        raise NotJson("its registration is that of another member")
    return sort_key
