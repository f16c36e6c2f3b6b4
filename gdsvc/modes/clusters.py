"""--pool-discovery karmada and mcs: what the imported EndpointSlices show is listed, joined with registrations.

Import this module only in these modes: what knows Kubernetes' credentials takes seconds to load.
"""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, nullcontext

from gdsvc import logs, metrics
from gdsvc.backends.indexed import OnChange
from gdsvc.backends.mcs.directory import JoinedRegistrar, McsPoolDirectory, McsReplicaDirectory, NoRegistrar
from gdsvc.backends.mcs.imported import NAME, ImportedSlices
from gdsvc.backends.mcs.naming import Mode, service_name_fault
from gdsvc.backends.mcs.pools import PoolServices
from gdsvc.backends.mcs.replicas import RouterService
from gdsvc.backends.pulse import Advancing
from gdsvc.kube import objects
from gdsvc.kube.client import Client
from gdsvc.kube.credentials import Credentials
from gdsvc.kube.reflector import Kind, Reflector
from gdsvc.model import PoolLocation
from gdsvc.modes.storage import Storage, lease_of, registration_readings
from gdsvc.pool_discovery.registrar import PoolRegistrar
from gdsvc.settings import ClusterSettings, Settings

NO_POOLS_REGISTER = "pools come from EndpointSlices alone here (--registrations off), so none registers"
NO_ROUTERS_REGISTER = "routers come from EndpointSlices here (--pool-discovery), so none registers"

log = logs.get("gdsvc.mcs")


class Clusters:
    """Discovery over the EndpointSlices of one API server. `storage` None: registrations are not joined."""

    def __init__(
        self,
        settings: Settings,
        clusters: ClusterSettings,
        storage: Storage | None,
        started_at: str,
        on_change: OnChange,
    ) -> None:
        self._clusters = clusters
        mode = Mode(settings.pool_discovery)
        lease = lease_of(settings)
        self._slices = ImportedSlices(mode, started_at)
        self._storage = storage
        store = None if storage is None else storage.pools
        services = PoolServices(
            clusters.pool_service_suffix, clusters.frontend_service_suffix, clusters.frontend_port_name
        )
        locations = {cluster: PoolLocation(region, zone) for cluster, region, zone in clusters.locations}
        self.pools = McsPoolDirectory(self._slices, services, store, locations, on_change=on_change)
        self.routers = McsReplicaDirectory(self._slices, _router_service(clusters, mode), on_change)
        self.pool_registrar: PoolRegistrar = NoRegistrar(lease, NO_POOLS_REGISTER)
        self.advancing: tuple[Advancing, ...] = (self._slices, self.pools)
        if storage is not None:
            self.pool_registrar = JoinedRegistrar(storage.pools, self.pools)
            self.advancing = (*storage.advancing, *self.advancing)
        self.replica_registrar = NoRegistrar(lease, NO_ROUTERS_REGISTER)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Watches. Raises NoCredentials where the API server's address or what it asks for cannot be loaded."""
        credentials = await Credentials.load(self._clusters.kubeconfig)
        log.info("mcs.watching", api_server=credentials.settings.host, path=objects.ENDPOINT_SLICES_PATH)
        kind = Kind(objects.ENDPOINT_SLICES_PATH, objects.ENDPOINT_SLICE)
        relist_secs = float(self._clusters.relist_interval_secs)
        async with (
            nullcontext() if self._storage is None else self._storage.running(),
            Client(credentials) as client,
            Reflector(client, kind, self._slices, relist_secs=relist_secs),
        ):
            yield

    def not_ready(self) -> tuple[str, ...]:
        """The first list is not taken in yet, or the storage has not been read."""
        reason = self._slices.not_ready()
        stored = () if self._storage is None else self._storage.not_ready()
        return (reason, *stored) if reason else stored

    def readings(self) -> Iterator[metrics.Reading]:
        """What is counted of the watch, and of registrations where they are joined."""
        if self._storage is not None:
            yield from registration_readings(self._storage.pools)
            yield from self._storage.readings()
        if (silent_secs := self._slices.silent_secs) is not None:
            yield metrics.SOURCE_SILENT, silent_secs, NAME
        for kind, count in self._slices.errors.items():
            yield metrics.WATCH_ERRORS, count, kind
        for cause, count in self._slices.relists.items():
            yield metrics.RELISTS, count, cause


def _router_service(clusters: ClusterSettings, mode: Mode) -> RouterService | None:
    namespace, name, port_name = clusters.router_namespace, clusters.router_service, clusters.router_port_name
    if namespace is None or name is None or port_name is None:
        return None
    if (fault := service_name_fault(name, mode)) is not None:
        log.error("mcs.router_service", fault=f"--router-service: {fault}; no router will ever be listed")
    return RouterService(namespace, name, port_name)
