"""ImportedSlices: what a reflector tells, kept in a SliceCache, and told on to the directories in bounded steps.

Decides when what the slices say may be shown and how far it can be trusted. What it means is the directories' matter.
"""

import time
from collections import Counter, deque
from collections.abc import Callable
from math import inf
from typing import Final, Protocol, get_args

from gdsvc import logs
from gdsvc.backends.mcs.endpoints import SliceView
from gdsvc.backends.mcs.naming import Mode, ServiceKey
from gdsvc.backends.mcs.remarks import Once, Remark
from gdsvc.backends.mcs.slices import HOLD_SECS, Services, SliceCache
from gdsvc.errors import Unavailable
from gdsvc.kube.freshness import RECOVERED_AFTER_SECS
from gdsvc.kube.objects import EndpointSlice, ObjectMeta
from gdsvc.kube.watcher import Cause, Failed, Kind
from gdsvc.pool_discovery.directory import Source
from gdsvc.pool_discovery.explain import instant

NAME: Final = "endpointslices"  # of the source
STEP_SERVICES: Final = 250  # looked at again in one step: of few endpoints each about 4 ms of the loop
STEP_TARGETS: Final = 5_000  # whose Services are looked at again in one step: about 4 ms too
RETRY_AFTER_SECS: Final = 2

log = logs.get("gdsvc.mcs")


class Reader(Protocol):
    """Who makes something of the slices: a directory."""

    def services_changed(self, services: Services, cause: str) -> None:
        """What the slices of these Services say has changed; `cause` is a sentence without a full stop."""
        ...

    def listed_anew(self, *, empty: bool) -> None:
        """A whole list has been taken in, after all that it changed was told; `empty`: no Service is in it."""
        ...

    def trust_changed(self) -> None:
        """`exact` has changed."""
        ...


class ImportedSlices:
    """A reflector's View. `unix_now` and `monotonic` give seconds.

    A list is told on in steps: one at once, the others by `advance`, which a Pulse calls. The view counts as there, and
    a stale one as exact again, once the last step is done. What a reader raises at is told again by a later step.
    """

    def __init__(
        self,
        mode: Mode,
        started_at: str,
        unix_now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        hold_secs: float = HOLD_SECS,
    ) -> None:
        self._cache = SliceCache(mode, hold_secs)
        self._unix_now = unix_now
        self._monotonic = monotonic
        self._readers: list[Reader] = []
        self._once = Once()
        self._to_tell: deque[ServiceKey] = deque()  # of the last whole list, and what could not be told
        self._cause = ""  # of that list
        self._telling = False  # something is left of it
        self._stale = False
        self._failing_since = 0.0  # Unix time of the first failure of an unbroken row
        self._failing_until = -inf  # monotonic: without another failure the row has ended then
        self._last_failure: Failed | None = None
        self._good_at: float | None = None
        self._started_at = started_at
        self.synced = False
        self.exact = False
        # All there can be from the start: scrapes, which run in a thread, so never meet a dictionary that grows.
        self.errors: Counter[Kind] = Counter(dict.fromkeys(get_args(Kind), 0))
        self.relists: Counter[Cause] = Counter(dict.fromkeys(get_args(Cause), 0))

    def add(self, reader: Reader) -> None:
        """From now on `reader` is told, after those that were added before."""
        self._readers.append(reader)

    # -- reading

    def views(self, service: ServiceKey) -> tuple[SliceView, ...]:
        """What the slices of `service` say; empty where it has none."""
        return self._cache.views(service)

    def check_synced(self) -> None:
        """Raises Unavailable until the first list is taken in."""
        if not self.synced:
            raise Unavailable(self.not_ready(), RETRY_AFTER_SECS)

    def not_ready(self) -> str:
        """Why there is nothing to show yet; empty where there is."""
        if self.synced:
            return ""
        reason = "the EndpointSlices have not been listed yet"
        return f"{reason}: {self._last_failure.message}" if self._last_failure else reason

    @property
    def silent_secs(self) -> float | None:
        """Since the last whole list or change event; None where there was none."""
        return None if self._good_at is None else max(0.0, self._unix_now() - self._good_at)

    def source(self, more: str = "") -> Source:
        """What is known of the slices now; `more` is added to the detail."""
        as_of = self._started_at if self._good_at is None else instant(self._good_at)
        return Source(NAME, self.exact, as_of, f"{self._state()}{more}")

    def _state(self) -> str:
        if not self.synced:
            return self.not_ready()
        if self._last_failure is None or not (self._stale or self._monotonic() < self._failing_until):
            return "listed, and followed by a watch"
        failing = f"failing since {instant(self._failing_since)} ({self._last_failure.message})"
        return f"stale, its watch {failing}" if self._stale else f"followed by a watch that is {failing}"

    # -- told by the reflector

    def init(self) -> None:
        """A list begins."""
        self._cache.init()

    def init_apply(self, item: EndpointSlice) -> None:
        """A slice of the list."""
        self._cache.init_apply(item)

    def init_delete(self, item: EndpointSlice) -> None:
        """A slice left while the list was being received."""
        self._cache.init_delete(item)

    def init_done(self, cause: Cause) -> None:
        """The list is whole."""
        changed = self._cache.init_done() | frozenset(self._to_tell)  # those too that the list before it has not told
        self.relists[cause] += 1
        self._is_good()
        self._cause = f"all EndpointSlices were listed ({cause})"
        self._to_tell = deque(sorted(changed))
        self._telling = True
        if not self._cache.services:
            log.warning("mcs.empty_list", cause=cause, slices_of_others=sum(self._cache.skipped.values()))
        self._tell_list()

    def apply(self, item: EndpointSlice) -> None:
        """A slice appeared or changed."""
        self._is_good()
        self._tell(self._cache.apply(item, self._monotonic()), f"EndpointSlice {_name(item.metadata)} came or changed")

    def delete(self, item: EndpointSlice) -> None:
        """A slice left."""
        self._is_good()
        self._tell(self._cache.delete(item, self._monotonic()), f"EndpointSlice {_name(item.metadata)} was deleted")

    def completeness(self, *, stale: bool) -> None:
        """Whether the view may lack something changed."""
        self._stale = stale
        self._judge()

    def failed(self, failure: Failed) -> None:
        """Any error."""
        self.errors[failure.kind] += 1
        self._last_failure = failure
        now = self._monotonic()
        if now >= self._failing_until:
            self._failing_since = self._unix_now()
        self._failing_until = now + RECOVERED_AFTER_SECS

    # -- time

    def advance(self) -> float:
        """One bounded step of what is to be told; in how many seconds the next is due, 0 where it is due already."""
        now = self._monotonic()
        if now >= self._cache.due_at:
            self._tell(self._cache.advance(now), "the last Ready endpoints are in no EndpointSlice any more")
        if self._telling:
            self._tell_list()
        return 0.0 if self._telling else max(0.0, self._cache.due_at - now)

    # -- how

    def say(self, remark: Remark) -> None:
        """Logs `remark` unless that was said before."""
        if self._once.first(remark):
            log.warning("mcs.remark", remark=str(remark))

    def _is_good(self) -> None:
        self._good_at = self._unix_now()
        self._failing_until = -inf

    def _tell_list(self) -> None:
        """The next step of the list."""
        self._tell(self._next_step(), self._cause)
        self._telling = bool(self._to_tell)
        if not self._telling:
            self.synced = True
            for reader in self._readers:
                reader.listed_anew(empty=not self._cache.services)
            self._judge()

    def _next_step(self) -> Services:
        """Takes what is told together: at least one Service, and no more than both bounds allow."""
        step: set[ServiceKey] = set()
        targets = 0
        while self._to_tell and len(step) < STEP_SERVICES and targets < STEP_TARGETS:
            service = self._to_tell.popleft()
            step.add(service)
            targets += self._cache.target_count(service)
        return frozenset(step)

    def _tell(self, services: Services, cause: str) -> None:
        for remark in self._cache.take_remarks():
            self.say(remark)
        try:
            for reader in self._readers if services else ():
                reader.services_changed(services, cause)
        except Exception:
            self._to_tell.extend(services)  # the cache has them, so no relist would find that they have changed
            self._telling = True
            raise

    def _judge(self) -> None:
        """A view that has become stale is inexact at once; one that is fresh again, once it is told to its end."""
        exact = self.synced and not self._stale and (self.exact or not self._telling)
        if exact != self.exact:
            self.exact = exact
            for reader in self._readers:
                reader.trust_changed()


def _name(metadata: ObjectMeta) -> str:
    return f"{metadata.namespace}/{metadata.name}"
