"""What a mode offers to the composition root, whatever its lists come from."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from gdsvc import metrics
from gdsvc.backends.pulse import Advancing
from gdsvc.pool_discovery.directory import EncodedDirectory
from gdsvc.pool_discovery.explain import Explainer
from gdsvc.pool_discovery.registrar import PoolRegistrar, ReplicaRegistrar
from gdsvc.pool_discovery.watch import Completeness


class Counts(Protocol):
    """What an index counts: its length is that of the list."""

    def __len__(self) -> int: ...
    @property
    def revision(self) -> int: ...
    @property
    def encodings(self) -> int: ...


class Listed(EncodedDirectory, Protocol):
    """A directory and what is counted of it."""

    @property
    def index(self) -> Counts: ...
    @property
    def completeness(self) -> Completeness: ...


class ListedPools(Listed, Explainer, Protocol):
    """A directory of pools."""


class Discovery(Protocol):
    """`running()` is entered before the service listens; `advancing` is what its Pulse drives, in this order."""

    @property
    def pools(self) -> ListedPools: ...
    @property
    def routers(self) -> Listed: ...
    @property
    def pool_registrar(self) -> PoolRegistrar: ...
    @property
    def replica_registrar(self) -> ReplicaRegistrar: ...
    @property
    def advancing(self) -> Sequence[Advancing]: ...
    def running(self) -> AbstractAsyncContextManager[None]:
        """Raises GdsvcError where what the mode needs from outside cannot be had."""
        ...

    def not_ready(self) -> tuple[str, ...]:
        """Why there is nothing to show yet."""
        ...

    def readings(self) -> Iterator[metrics.Reading]:
        """What only this mode counts."""
        ...
