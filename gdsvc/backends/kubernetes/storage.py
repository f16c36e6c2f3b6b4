"""Registrations kept in the Leases of one namespace: the stores, and what writes and watches for them while running."""

import secrets
import socket
import time
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Final

from gdsvc.backends.indexed import OnChange, ignore
from gdsvc.backends.kubernetes import leases
from gdsvc.backends.kubernetes.beacon import EVERY_SECS, Beacon
from gdsvc.backends.kubernetes.echoes import Moment
from gdsvc.backends.kubernetes.engine import LeaseEngine
from gdsvc.backends.kubernetes.leases import Member
from gdsvc.backends.kubernetes.pacing import Pacing
from gdsvc.backends.kubernetes.view import LeaseView
from gdsvc.backends.kubernetes.writer import FIRST_PAUSE_SECS, Writer
from gdsvc.backends.pulse import Advancing
from gdsvc.backends.shared.store import Shared, SharedPoolStore, SharedReplicaStore
from gdsvc.kube import objects
from gdsvc.kube.client import Client, Credentials
from gdsvc.kube.reflector import Kind, Reflector
from gdsvc.model import Lease, RouterReplica
from gdsvc.pool_discovery.lease_clock import LeaseClock

BUDGET_SHARE: Final = 0.8  # of a heartbeat's interval: what gives up after a whole one still hears why
LONGEST_BUDGET_SECS: Final = 4.0  # however rare heartbeats are: whoever sends one waits no longer than about five
WRITE_READ_SECS: Final = 5.0  # a server that is silent for longer is asked again, on another connection


class LeaseStorage:
    """`pools` and `routers` are stores that any number of replicas share; `advancing` is what a Pulse drives.

    `renew_fraction` (0 to 1) of a lease may pass before a heartbeat is written again.
    """

    def __init__(  # noqa: PLR0913 - one composition root calls it
        self,
        lease: Lease,
        clock: LeaseClock,
        started_at: str,
        on_change: OnChange = ignore,
        *,
        renew_fraction: float = 0.0,
        max_pools: int | None = None,
        fixed: Iterable[RouterReplica] = (),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._budget_secs = min(lease.heartbeat_interval_secs * BUDGET_SHARE, LONGEST_BUDGET_SECS)
        self._holder = f"{socket.gethostname()}-{secrets.token_hex(4)}"
        self._now = lambda: Moment(monotonic(), clock.now())
        self.view = LeaseView(Pacing(lease.lease_duration_secs, renew_fraction), self._now)
        engines = [LeaseEngine(member, self.view, self._holder, self._now) for member in (Member.POOL, Member.ROUTER)]
        pool_engine, router_engine = self.engines = engines
        self.pools = SharedPoolStore(
            lease, clock, started_at, Shared(pool_engine, EVERY_SECS), on_change, max_pools=max_pools
        )
        self.routers = SharedReplicaStore(
            lease, clock, started_at, Shared(router_engine, EVERY_SECS), on_change, fixed=fixed
        )
        self.view.bind(Member.POOL, self.pools)
        self.view.bind(Member.ROUTER, self.routers)
        self.advancing: tuple[Advancing, ...] = (self.view, self.pools, self.routers)
        self.writer: Writer | None = None
        self.beacon: Beacon | None = None

    @asynccontextmanager
    async def running(
        self, credentials: Credentials, namespace: str, *, first_pause_secs: float = FIRST_PAUSE_SECS
    ) -> AsyncGenerator[None]:
        """Writes and watches the Leases of `namespace`; registrations are taken within."""
        kind = Kind(objects.leases_path(namespace), objects.LEASE, leases.MEMBER_LABEL)
        async with (
            Client(credentials, read_secs=WRITE_READ_SECS) as writing,
            Client(credentials) as watching,
            Writer(
                writing, namespace, self.view, budget_secs=self._budget_secs, first_pause_secs=first_pause_secs
            ) as writer,
            Reflector(watching, kind, self.view),
            Beacon(writer, self.view, self._holder, self._now) as beacon,
        ):
            self.writer, self.beacon = writer, beacon
            for engine in self.engines:
                engine.writer = writer
            yield

    def not_ready(self) -> str:
        """Why there is nothing to show yet; empty where there is."""
        if self.view.synced:
            return ""
        reason = "the Leases that hold the registrations have not been read yet"
        failure = self.view.last_failure
        return f"{reason}: {failure.message}" if failure else reason
