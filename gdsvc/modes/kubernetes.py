"""--registration-storage kubernetes: Leases in one namespace. Import this module only where it is asked for.

What knows Kubernetes' credentials takes seconds to load.
"""

from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from gdsvc import logs, metrics
from gdsvc.backends.indexed import OnChange
from gdsvc.backends.kubernetes.storage import LeaseStorage
from gdsvc.errors import GdsvcError
from gdsvc.kube.credentials import SERVICE_ACCOUNT, Credentials
from gdsvc.modes.storage import fixed_routers, lease_of
from gdsvc.pool_discovery.lease_clock import LeaseClock
from gdsvc.settings import KubernetesSettings, Settings

log = logs.get("gdsvc.kubernetes")


class NoNamespace(GdsvcError):
    """Where the Leases are to be is not known."""


class Kubernetes:
    """Registrations in Leases of the API server that KUBECONFIG names, else of the one that runs this pod."""

    def __init__(
        self,
        settings: Settings,
        kubernetes: KubernetesSettings,
        clock: LeaseClock,
        started_at: str,
        on_change: OnChange,
    ) -> None:
        self._settings = kubernetes
        self._storage = LeaseStorage(
            lease_of(settings),
            clock,
            started_at,
            on_change,
            renew_fraction=kubernetes.kubernetes_renew_fraction,
            max_pools=settings.max_pools,
            fixed=fixed_routers(settings),
        )
        self.pools = self._storage.pools
        self.routers = self._storage.routers
        self.advancing = self._storage.advancing

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Writes and watches. Raises NoCredentials, NoNamespace."""
        credentials = await Credentials.load(self._settings.kubeconfig)
        namespace = self._settings.kubernetes_namespace or _namespace_of_the_pod(SERVICE_ACCOUNT)
        log.info("kubernetes.watching_leases", api_server=credentials.settings.host, namespace=namespace)
        async with self._storage.running(credentials, namespace):
            yield

    def not_ready(self) -> tuple[str, ...]:
        """The Leases have not been read yet."""
        reason = self._storage.not_ready()
        return (reason,) if reason else ()

    def readings(self) -> Iterator[metrics.Reading]:
        """What is counted of Leases."""
        view, writer = self._storage.view, self._storage.writer
        yield metrics.STORE_LAG, view.lag_secs
        yield metrics.STORE_UNREADABLE, view.unreadable
        for kind, count in view.errors.items():
            yield metrics.STORE_ERRORS, count, kind
        if writer is not None:
            yield metrics.STORE_WRITES, writer.sent
            yield metrics.STORE_WRITES_REPEATED, writer.retried
        yield metrics.STORE_UNWRITTEN, sum(engine.passed_over for engine in self._storage.engines)


def _namespace_of_the_pod(service_account: Path) -> str:
    try:
        return (service_account / "namespace").read_text().strip()
    except OSError:
        raise NoNamespace("--kubernetes-namespace: expected where this runs in no pod") from None
