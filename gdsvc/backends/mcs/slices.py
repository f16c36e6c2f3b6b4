"""SliceCache: what the slices of each Service say, as of the last list and the events since.

An event touches only its Service; a relist is built aside, swapped whole and says which Services it changed. Holds no
clock: `now` is in seconds of any clock that only goes forward.
"""

from collections import Counter, deque
from collections.abc import Mapping
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from gdsvc.backends.mcs.endpoints import SliceView, view_of
from gdsvc.backends.mcs.naming import Mode, Reason, ServiceKey, place
from gdsvc.backends.mcs.remarks import Once, Remark, about, skipped
from gdsvc.kube.objects import EndpointSlice, Key, key_of

# A controller that moves an endpoint to another slice may take it out of the first one first. Between the two writes,
# milliseconds apart, no slice has it. Were it the last one, its pool would leave and come back.
HOLD_SECS = 0.3

Services = frozenset[ServiceKey]
NOTHING: Services = frozenset()


class _Held(Struct, frozen=True, gc=False):
    """The last Ready targets of a Service, which vanished; they count until `deadline`."""

    deadline: float
    view: SliceView


class _Generation:
    """All slices: where each belongs or why it is skipped, and the views of each Service by the slice's name."""

    def __init__(self) -> None:
        self.places: dict[Key, ServiceKey | Reason] = {}
        self.services: dict[ServiceKey, dict[str, SliceView]] = {}
        self.skipped: Counter[Reason] = Counter()

    def service(self, name: Key) -> ServiceKey | None:
        """The Service of a slice that is read."""
        where = self.places.get(name)
        return where if isinstance(where, ServiceKey) else None

    def view(self, name: Key) -> tuple[ServiceKey, SliceView] | None:
        """The Service of a slice that is read, and what the slice says."""
        service = self.service(name)
        return None if service is None else (service, self.services[service][name[1]])

    def put(self, name: Key, where: ServiceKey | Reason, view: SliceView | None) -> None:
        """Takes a slice in, instead of what was there of that name; `view` where it belongs to a Service."""
        self.remove(name)
        self.places[name] = where
        if isinstance(where, Reason):
            self.skipped[where] += 1
        elif view is not None:
            self.services.setdefault(where, {})[name[1]] = view

    def remove(self, name: Key) -> None:
        """Forgets a slice, and its Service with the last one."""
        where = self.places.pop(name, None)
        if isinstance(where, Reason):
            self.skipped[where] -= 1
        elif where is not None:
            views = self.services[where]
            del views[name[1]]
            if not views:
                del self.services[where]


class _Relist:
    """What a list has brought so far; which slices it has yet to bring; which Services it may change.

    Kept as the list comes in, in small steps, so that the swap has little to do.
    """

    def __init__(self, live: _Generation) -> None:
        self.generation = _Generation()
        self.missing = set(live.places)
        self.suspects: set[ServiceKey] = set()


class SliceCache:
    """Fed with the reflector's events by their names; each answers with the Services whose views changed.

    `hold_secs`: for how long the last Ready targets of a Service still count where they vanish, until a slice names
    them again or another is Ready. What is said to be not Ready or terminating is not held, nor what a relist lacks.
    """

    def __init__(self, mode: Mode, hold_secs: float = HOLD_SECS) -> None:
        self._mode = mode
        self._hold_secs = hold_secs
        self._live = _Generation()
        self._relist: _Relist | None = None  # while a list is being received
        self._held: dict[ServiceKey, _Held] = {}  # never of a Service with a Ready target
        self._deadlines: deque[tuple[float, ServiceKey]] = deque()  # in order, since all are held equally long
        self._once = Once()
        self._remarks: list[Remark] = []

    # -- reading

    def views(self, service: ServiceKey) -> tuple[SliceView, ...]:
        """What the slices of `service` say, and what is held as a view of its own; empty where it has none.

        A target may be in several: it is Ready if any of them says so.
        """
        views = tuple(self._live.services.get(service, {}).values())
        held = self._held.get(service)
        return views if held is None else (*views, held.view)

    def target_count(self, service: ServiceKey) -> int:
        """How many targets the slices of `service` have: what it costs to look at it."""
        return sum([len(view.targets) for view in self._live.services.get(service, {}).values()])

    @property
    def services(self) -> Mapping[ServiceKey, Mapping[str, SliceView]]:
        """Every Service with at least one slice, and its views by the slice's name; nothing that is held."""
        return self._live.services

    @property
    def skipped(self) -> Mapping[Reason, int]:
        """How many slices are not read, by the reason."""
        return +self._live.skipped

    @property
    def due_at(self) -> float:
        """When `advance` has something to do next; inf for never."""
        return self._deadlines[0][0] if self._deadlines else inf

    def take_remarks(self) -> list[Remark]:
        """What there is to say since the last call, each thing once in the life of the cache."""
        remarks, self._remarks = self._remarks, []
        return remarks

    # -- events

    def apply(self, endpoint_slice: EndpointSlice, now: float) -> Services:
        """A slice is new or has changed."""
        name = key_of(endpoint_slice.metadata)
        before = self._live.view(name)
        where, view = self._read(endpoint_slice)
        after = (where, view) if isinstance(where, ServiceKey) and view is not None else None
        if before is not None and before == after:
            return NOTHING
        self._live.put(name, where, view)
        if before is not None:
            self._settle(*before, now)
        if after is not None and (before is None or before[0] != after[0]):
            self._settle(after[0], None, now)
        return self._touched(before, after)

    def delete(self, endpoint_slice: EndpointSlice, now: float) -> Services:
        """A slice is gone."""
        name = key_of(endpoint_slice.metadata)
        before = self._live.view(name)
        self._live.remove(name)
        if before is None:
            return NOTHING
        self._settle(*before, now)
        return self._touched(before, None)

    def init(self) -> None:
        """A list begins; one that was half read is forgotten."""
        self._relist = _Relist(self._live)

    def init_apply(self, endpoint_slice: EndpointSlice) -> None:
        """A slice of the list; not visible yet."""
        relist = self._begun()
        name = key_of(endpoint_slice.metadata)
        where, view = self._read(endpoint_slice)
        known = self._live.view(name)
        if known is not None and known == (where, view):
            where, view = known  # the same objects, which are not kept twice
        else:
            if known is not None:
                relist.suspects.add(known[0])
            if isinstance(where, ServiceKey):
                relist.suspects.add(where)
        relist.missing.discard(name)
        relist.generation.put(name, where, view)

    def init_delete(self, endpoint_slice: EndpointSlice) -> None:
        """A slice of the list left before the list was whole."""
        relist, name = self._begun(), key_of(endpoint_slice.metadata)
        relist.generation.remove(name)
        relist.missing.add(name)

    def init_done(self) -> Services:
        """The list is whole: it replaces everything, also what was held. Compares only what may differ."""
        relist = self._begun()
        old, new = self._live, relist.generation
        relist.suspects.update(filter(None, map(old.service, relist.missing)))
        changed = {service for service in relist.suspects if old.services.get(service) != new.services.get(service)}
        changed |= self._held.keys()
        self._live, self._relist = new, None
        self._held.clear()
        self._deadlines.clear()
        return frozenset(changed)

    def advance(self, now: float) -> Services:
        """Lets go of what was held long enough."""
        changed: set[ServiceKey] = set()
        while self._deadlines and self._deadlines[0][0] <= now:
            _, service = self._deadlines.popleft()
            held = self._held.get(service)
            if held is not None and held.deadline <= now:  # else it came back, and has perhaps vanished again
                del self._held[service]
                changed.add(service)
        return frozenset(changed)

    # -- how

    def _touched(self, *views: tuple[ServiceKey, SliceView] | None) -> Services:
        """The Services of `views`, which an event has changed; a list that is being read may change them back."""
        touched = frozenset(service for service, _ in filter(None, views))
        if self._relist is not None:
            self._relist.suspects |= touched
        return touched

    def _begun(self) -> _Relist:
        if self._relist is None:
            self._relist = _Relist(self._live)
        return self._relist

    def _read(self, endpoint_slice: EndpointSlice) -> tuple[ServiceKey | Reason, SliceView | None]:
        where = place(endpoint_slice, self._mode)
        if isinstance(where, Reason):
            self._say(skipped(endpoint_slice, where))
            return where, None
        view = view_of(endpoint_slice)
        if view.service_ip:
            self._say(about(where, Reason.SERVICE_IP, view.name))
        return where, view

    def _say(self, remark: Remark | None) -> None:
        if remark is not None and self._once.first(remark):
            self._remarks.append(remark)

    def _settle(self, service: ServiceKey, before: SliceView | None, now: float) -> None:
        """Decides what is held of a Service that has changed; `before` is what the slice said that did it."""
        targets = [target for view in self._live.services.get(service, {}).values() for target in view.targets]
        held = self._held.pop(service, None)
        if self._hold_secs <= 0 or any(target.ready for target in targets):
            return
        named = {address for target in targets for address in target.addresses}
        if before is not None and (view := _vanished(before, named)):
            held = _Held(now + self._hold_secs, view)
            self._deadlines.append((held.deadline, service))
        elif held is not None and (view := _vanished(held.view, named)):
            held = _Held(held.deadline, view)
        else:
            return
        self._held[service] = held


def _vanished(view: SliceView, named: set[str]) -> SliceView | None:
    """The Ready targets of a view that is no more, as far as none of their addresses is named elsewhere."""
    gone = tuple(target for target in view.targets if target.ready and named.isdisjoint(target.addresses))
    return replace(view, targets=gone) if gone else None
