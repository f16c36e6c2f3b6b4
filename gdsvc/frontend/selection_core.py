"""The selection core: round-robin over workers that are named by a hash, as the routers of the fleet name them.

It is a policy like others. A worker is a pool with a frontend; all are of one group, `global`. What is picked is the
frontend itself, so that no look-up in another snapshot can fail between the pick and the request.
"""

from collections.abc import Sequence

from xxhash import xxh3_64_intdigest

from gdsvc._in_flight import Frontend
from gdsvc._picker import RoundRobin
from gdsvc.frontend.policies.policy import Asked, Candidate


def worker_id(pool_id: str) -> int:
    """XXH3-64, seed 0, of the pool id in UTF-8."""
    return xxh3_64_intdigest(pool_id.encode())


class Workers:
    """The Chooser: one worker for each candidate, each once a round."""

    def __init__(self) -> None:
        self._rota = RoundRobin[int, Frontend]()

    @property
    def workers(self) -> tuple[int, ...]:
        """The ids of the workers that can be selected, in the order of the candidates."""
        return self._rota.pools

    def swap(self, candidates: Sequence[Candidate]) -> None:
        """The workers from now on. Of two pools with the same hash, one in 2^64 pairs, the first is the worker."""
        workers: dict[int, tuple[Frontend, ...]] = {}
        for candidate in candidates:
            workers.setdefault(worker_id(candidate.pool.id), candidate.frontends)
        self._rota.swap(workers.items())

    def choose(self, asked: Asked) -> Frontend | None:
        """Whose turn it is: advice, for which nothing is queued and nothing booked."""
        pair = self._rota.pick() if asked.avoid is None else self._rota.pick_besides(asked.avoid)
        return None if pair is None else pair[1]


class SelectionCore:
    """The Policy."""

    def chooser(self) -> Workers:
        """The workers of one set."""
        return Workers()
