"""Rounds of wrk through each side in turn, all of them before one stub upstream; CPU a request of each round."""

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.effort import Effort
from bench.frontend import bodies, sides
from bench.frontend.figures import GRANIAN
from bench.frontend.sides import Stub
from bench.load import CONNECTIONS, Load, LoadFailed, driven
from bench.processes import Cores, Server, group_run_seconds

CHAT: Final = "/v1/chat/completions"
UPLOADS: Final = 16  # at a time: more would measure how memory is found for them
LONGER: Final[Mapping[str, float]] = {"paced": 3.0}  # of whose streams each takes 200 ms
SETTLE_SECS: Final = 0.05  # what a round leaves behind, such as streams that are cut, is its own


class Ring:
    """The sides that run at the same time, their stub, and what they are asked."""

    def __init__(self, stub: Stub, servers: Mapping[str, Server], loads: Mapping[str, Load], cores: Cores) -> None:
        self._stub = stub
        self._servers = servers
        self._loads = loads
        self._cores = cores

    def rounds(self, scenario: str, labels: frozenset[str], effort: Effort) -> Iterator[tuple[str, float]]:
        """Microseconds of CPU a request for each of `labels`, round after round. Raises LoadFailed, ChildFailed."""
        secs = effort.seconds * LONGER.get(scenario, 1.0)
        for _ in range(effort.rounds):
            for label in self._servers:
                if label in labels:
                    yield label, self._round(scenario, label, secs)

    def _round(self, scenario: str, label: str, secs: float) -> float:
        server, load = self._servers[label], self._loads[scenario]
        self._stub.become(scenario)
        before = group_run_seconds(server.group)
        made = driven(server, load, self._cores.driver, secs)
        time.sleep(SETTLE_SECS)  # what was on its way when the driver ended is paid for in this round
        spent = group_run_seconds(server.group) - before
        if label == GRANIAN:
            return spent / made * 1e6
        return spent / shared_out(made, self._stub.answered(), load.connections) * 1e6


def shared_out(made: int, answered: float, connections: int) -> float:
    """What the CPU of a round is shared out among: what the stub answered, with the shares of what was not at its end.

    It is ahead of wrk by what was on its way when the round ended, never by more. Raises LoadFailed.
    """
    if not -0.5 <= answered - made <= connections:  # half a request: the shares are added up
        raise LoadFailed(f"wrk had {made} answers, the upstream gave {answered:.1f}")
    return answered


@contextmanager
def running(labels: frozenset[str], cores: Cores) -> Iterator[Ring]:
    """Fresh servers, until the block ends. Raises StartFailed."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        stub = stack.enter_context(sides.stub(cores.driver))
        servers = {
            label: stack.enter_context(start(cores.server, stub.server.port))
            for label, start in sides.SIDES.items()
            if label in labels
        }
        yield Ring(stub, servers, _loads(folder), cores)


def _loads(folder: Path) -> dict[str, Load]:
    def load(name: str, asked: list[bytes], connections: int) -> Load:
        file = folder / name
        file.write_bytes(b"".join(body + b"\n" for body in asked))
        return Load(bodies=file, path=CHAT, connections=connections)

    stream = load("streams", bodies.questions(stream=True), CONNECTIONS)
    return {
        "json": load("questions", bodies.questions(stream=False), CONNECTIONS),
        "upload": load("uploads", bodies.uploads(), UPLOADS),
        **dict.fromkeys(("paced", "burst", "coalesced"), stream),
    }
