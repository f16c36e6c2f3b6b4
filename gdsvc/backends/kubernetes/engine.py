"""The Engine of backends/shared over Leases, for one kind of member: which Lease a heartbeat means, and whether it is
written or passed over."""

from collections.abc import Callable

from gdsvc import model
from gdsvc.backends.kubernetes import leases
from gdsvc.backends.kubernetes.echoes import Moment
from gdsvc.backends.kubernetes.leases import Member, Wanted, Written
from gdsvc.backends.kubernetes.view import LeaseView, registration_of, renewal_of
from gdsvc.backends.kubernetes.writer import Writer
from gdsvc.backends.shared import store
from gdsvc.backends.shared.sightings import Renewal
from gdsvc.errors import Unavailable


class LeaseEngine:
    """Before `writer` is set and all Leases were seen, every call raises Unavailable: what is not known yet would look
    like a change that another replica has made meanwhile. `holder` is who the Leases say has written them.
    """

    def __init__(self, member: Member, view: LeaseView, holder: str, now: Callable[[], Moment]) -> None:
        self._member = member
        self._view = view
        self._holder = holder
        self._now = now
        self.writer: Writer | None = None
        self.passed_over: int = 0  # heartbeats that needed no write

    async def write(self, name: bytes, payload: bytes) -> store.Written:
        """Registers, changes or renews. Raises DoesNotFit, Unavailable."""
        lease_name = self._lease_name(name)
        known = self._view.known(lease_name)
        written = known if known is not None and known.registration == payload and self._passes_over(known) else None
        if written is None:
            written = await self._put(lease_name, payload)
        return store.Written(renewal_of(written), registration_of(written))

    async def renew(self, name: bytes, version: int) -> Renewal | None:
        """Renews what `version` names; None where that is not what is known. Raises Unavailable."""
        lease_name = self._lease_name(name)
        known = self._view.known(lease_name)
        if known is None or known.changes != version:
            return None
        return renewal_of(known if self._passes_over(known) else await self._put(lease_name, known.registration))

    async def find(self, name: bytes) -> Renewal | None:
        """The last renewal, asked of the API server; None where there is none. Raises Unavailable."""
        written = await self._writer().look(self._lease_name(name))
        return None if written is None else renewal_of(written)

    async def deregister(self, name: bytes, version: int) -> Renewal | None:
        """Deletes the Lease; readers see that it is gone, and no renewal. Raises Unavailable."""
        del version
        await self._writer().take_out(self._lease_name(name))
        return None

    def _passes_over(self, known: Written) -> bool:
        passes = self._view.pacing.needs_no_write(known.name, known.granted_secs, self._now().monotonic)
        self.passed_over += passes
        return passes

    async def _put(self, lease_name: str, registration: bytes) -> Written:
        wanted = Wanted(self._member, lease_name, registration, self._view.pacing.granted_secs, self._holder)
        return await self._writer().put(wanted)

    def _writer(self) -> Writer:
        if self.writer is None or not self._view.synced:
            raise Unavailable("the Leases that hold the registrations have not been read yet", 1)
        return self.writer

    def _lease_name(self, name: bytes) -> str:
        if self._member is Member.POOL:
            return model.pool_id(model.key_of(name))
        return leases.router_lease_name(name.decode())
