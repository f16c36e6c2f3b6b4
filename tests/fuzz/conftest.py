"""How much is tried: a bounded run of the same examples each time; with FUZZ_EXAMPLES more of them, and new ones."""

import os
from collections.abc import Iterator

import hypothesis
import pytest

from tests.e2e.memory import KEPT, Memory
from tests.e2e.process import Service, running

EXAMPLES = "FUZZ_EXAMPLES"
BOUNDED = 2000  # of each hypothesis test; schemathesis, which tries many per example, takes a twentieth
WARM_UP = 200  # registrations, before memory is measured


def examples() -> int:
    return int(os.environ.get(EXAMPLES, BOUNDED))


def bounded() -> bool:
    """Whether this is the run that finds the same each time, as CI needs it."""
    return EXAMPLES not in os.environ


def tried_often() -> hypothesis.settings:
    """Settings for a test against a service: nothing is kept between runs, and time is no matter."""
    return hypothesis.settings(
        max_examples=examples(),
        derandomize=bounded(),
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )


@pytest.fixture
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service in which nothing expires. After the test it is alive, sound, and about as large as before."""
    with running(tmp_path_factory.mktemp("fuzz"), "--lease-duration-secs", "86400") as service:
        with service.connect() as caller:
            for number in range(WARM_UP):
                caller.post("/pools", b'{"key": %d}' % number)
                caller.get("/pools", Accept_Encoding=("gzip", "zstd", "identity")[number % 3])
        memory = Memory(service)
        yield service
        assert service.get("/live").json() == {"live": True}
        assert service.get("/pools").json().keys() >= {"complete", "pools"}
        assert not [name for name in service.samples() if 'status="5' in name]
        assert memory.settled_growth() < KEPT
