"""What a registrar offers to those who register pools or router replicas with it."""

from typing import Protocol, TypeVar

from gdsvc.model import Lease, PoolKey, PoolRegistration, RouterReplica

Payload_contra = TypeVar("Payload_contra", contravariant=True)
Key_contra = TypeVar("Key_contra", contravariant=True)


class Registrar(Protocol[Payload_contra, Key_contra]):
    """Writes. A registration is also the heartbeat: it holds for the lease that is granted, then it must come again."""

    @property
    def lease(self) -> Lease:
        """What every registration is granted."""
        ...

    async def renew(self, body: bytes, source: str | None = None) -> bool:
        """Renews the registration whose last body had exactly these bytes, without a look inside; False: register it.

        `source`, here and below, is the IP address that sent it, for whoever asks why. Raises Unavailable.
        """
        ...

    async def register(self, payload: Payload_contra, body: bytes | None = None, source: str | None = None) -> Lease:
        """Registers or renews `payload`; `body`, the bytes it came in, makes the next `renew` possible.

        Raises LimitReached, Conflict, DoesNotFit, Unavailable.
        """
        ...

    async def deregister(self, key: Key_contra, source: str | None = None) -> bool:
        """Takes the registration out at once; False where there was none. Raises Conflict, Unavailable."""
        ...


class PoolRegistrar(Registrar[PoolRegistration, PoolKey], Protocol):
    """Registers pools."""


class ReplicaRegistrar(Registrar[RouterReplica, str], Protocol):
    """Registers router replicas."""
