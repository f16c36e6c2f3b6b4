"""Pools as imported slices show them: which Services make a pool, whether it is live, its relays and its frontends.

Pure. What registrations add is join.py's.
"""

from collections.abc import Iterable

from msgspec import Struct

from gdsvc.backends.mcs.endpoints import SliceView, port_named_or_only, ready_addresses, ready_urls
from gdsvc.backends.mcs.naming import Reason, ServiceKey
from gdsvc.backends.mcs.remarks import Remark, about
from gdsvc.errors import Invalid
from gdsvc.model import PoolKey


class ImportedPool(Struct, frozen=True, gc=False):
    """A live pool: `relay_identities` are the addresses of its Ready PoolRelays, `frontends` base URLs; both sorted."""

    key: PoolKey
    relay_identities: tuple[str, ...]
    frontends: tuple[str, ...] = ()


class PoolServices(Struct, frozen=True):
    """How the Services of a pool are named: the pool's name and a suffix."""

    relay_suffix: str = "-pool-relay"
    frontend_suffix: str = "-frontend"
    frontend_port: str = "http"

    def pools_of(self, service: ServiceKey) -> tuple[PoolKey, ...]:
        """The pools that `service` is a part of: none as a rule, two where one suffix ends in the other."""
        keys = (_pool_key(service, self.relay_suffix), _pool_key(service, self.frontend_suffix))
        return tuple(dict.fromkeys(key for key in keys if key is not None))

    def pool_of(self, service: ServiceKey) -> PoolKey | None:
        """The pool whose PoolRelays are behind `service`; None where it is named otherwise."""
        return _pool_key(service, self.relay_suffix)

    def relays(self, key: PoolKey) -> ServiceKey:
        """The Service whose Ready endpoints make the pool live."""
        return ServiceKey(key.site_id, key.namespace, key.dgd_name + self.relay_suffix)

    def frontends(self, key: PoolKey) -> ServiceKey:
        """The Service whose Ready endpoints are the pool's frontends."""
        return ServiceKey(key.site_id, key.namespace, key.dgd_name + self.frontend_suffix)

    def touched(self, services: Iterable[ServiceKey]) -> frozenset[PoolKey]:
        """The pools to look at again where `services` have changed."""
        return frozenset(key for service in services for key in self.pools_of(service))

    def may_hold_frontends(self, service: ServiceKey) -> bool:
        """Whether `service` is named as one of frontends; `remarks` has something to say of no other."""
        return service.name.endswith(self.frontend_suffix)

    def remarks(self, service: ServiceKey, views: Iterable[SliceView]) -> list[Remark]:
        """What there is to say of a Service of frontends: which of its slices have Ready endpoints but not the port."""
        if _pool_key(service, self.frontend_suffix) is None:
            return []
        return [
            about(service, Reason.NO_PORT, view.name)
            for view in views
            if port_named_or_only(view, self.frontend_port) is None and any(target.ready for target in view.targets)
        ]


def imported_pool(
    key: PoolKey, relays: Iterable[SliceView], frontends: Iterable[SliceView], frontend_port: str
) -> ImportedPool | None:
    """The pool as the views of its two Services show it; None where no PoolRelay is Ready, so that it is not live."""
    identities = ready_addresses(relays)
    return ImportedPool(key, identities, ready_urls(frontends, frontend_port)) if identities else None


def _pool_key(service: ServiceKey, suffix: str) -> PoolKey | None:
    name = service.name.removesuffix(suffix)
    if name == service.name:
        return None
    try:
        return PoolKey(service.cluster, service.namespace, name)
    except Invalid:  # nothing is left of the name, or nothing that a pool can be called
        return None
