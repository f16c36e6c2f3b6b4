"""--pool-discovery registrations: what registers is listed, from wherever registrations are kept."""

from collections.abc import Iterator

from gdsvc import metrics
from gdsvc.modes.storage import Storage, registration_readings


class Registrations:
    """Discovery over two stores, each of which is directory and registrar in one."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.pools = self.pool_registrar = storage.pools
        self.routers = self.replica_registrar = storage.routers
        self.advancing = storage.advancing
        self.running = storage.running
        self.not_ready = storage.not_ready

    def readings(self) -> Iterator[metrics.Reading]:
        """What is counted of registrations."""
        yield from registration_readings(self.pools)
        yield from self._storage.readings()
