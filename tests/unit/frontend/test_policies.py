"""Policies are plugins: found by name, loaded from any distribution, told everything that affinity will need."""

import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from gdsvc.frontend.ejection import Ejection
from gdsvc.frontend.policies.least_in_flight import LeastInFlightPolicy
from gdsvc.frontend.policies.plugins import GROUP, PolicyFault, installed, load, names
from gdsvc.frontend.policies.policy import Environment, Load
from gdsvc.frontend.policies.round_robin import RoundRobinPolicy
from gdsvc.frontend.selection import Refused, Selector
from gdsvc.model import PoolCapacity, PoolKey, PoolListing, PoolLocation
from tests.unit.frontend.fleets import ENVIRONMENT, catalog

# A policy of somebody else: near regions first, then whoever has room; a session stays where it is for a while.
NEAREST = """
class Near:
    def __init__(self, environment):
        self.environment, self.candidates, self.pins = environment, (), {}

    def swap(self, candidates):
        self.candidates = tuple(candidates)

    def occupancy(self, candidate):
        load = self.environment.load(candidate.pool.id)
        return load.occupancy if load else candidate.cell.in_flight / (candidate.pool.max_concurrency or 1)

    def distance(self, candidate):
        region = candidate.pool.region
        if region == self.environment.region:
            return 0.0
        return self.environment.round_trip(region) or float("inf")

    def choose(self, asked):
        usable = [each for each in self.candidates if asked.avoid not in each.frontends and not each.aside]
        if not usable:
            return None
        pool_id, until = self.pins.get(asked.session, (None, 0.0))
        pinned = [each for each in usable if each.pool.id == pool_id and asked.now < until]
        nearest = min(map(self.distance, usable))
        near = [each for each in usable if self.distance(each) == nearest]
        roomy = [each for each in near if self.occupancy(each) < self.environment.load_headroom]
        chosen = (pinned or roomy or sorted(usable, key=self.occupancy))[0]
        if asked.session:
            self.pins[asked.session] = chosen.pool.id, asked.now + self.environment.session_pin_ttl_secs
        return chosen.rotate()


class Nearest:
    def __init__(self, environment):
        self.environment = environment

    def chooser(self):
        return Near(self.environment)


def broken(environment):
    raise RuntimeError("no such luck")
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed distribution that brings the policies `nearest`, `broken`, `empty` and `absent`."""
    (tmp_path / "nearest_policy.py").write_text(NEAREST)
    info = tmp_path / "nearest_policy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: nearest-policy\nVersion: 1.0\n")
    points = {"nearest": ":Nearest", "broken": ":broken", "empty": ":dict", "absent": ".gone:Policy"}
    lines = [f"{name} = nearest_policy{value}" for name, value in points.items()]
    (info / "entry_points.txt").write_text(
        "\n".join([f"[{GROUP}]", *lines]).replace("nearest_policy:dict", "builtins:set")
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "modules", dict(sys.modules))


def test_the_policies_of_this_distribution_are_found_by_name() -> None:
    assert {"round-robin", "least-in-flight"} <= set(names(installed()))
    assert isinstance(load("round-robin", installed(), ENVIRONMENT), RoundRobinPolicy)
    assert isinstance(load("least-in-flight", installed(), ENVIRONMENT), LeastInFlightPolicy)


def listing(name: str, region: str, most: int = 10) -> PoolListing:
    return PoolListing(
        PoolKey("s", "n", name),
        name,
        PoolLocation(region),
        "m",
        (f"http://{name}1", f"http://{name}2"),
        PoolCapacity(max_concurrency=most),
    )


@pytest.mark.usefixtures("plugin")
def test_a_policy_of_another_distribution_chooses_by_region_load_and_session() -> None:
    loads: dict[str, Load] = {}
    trips = {"west": 0.05, "far": 0.2}
    environment = Environment(load=loads.get, round_trip=trips.get, region="east")
    made = Selector(load("nearest", installed(), environment), Ejection())
    made.publish(catalog(listing("e", "east"), listing("w", "west"), listing("f", "far")), 0.0)

    def pool(session: str | None = None, now: float = 1.0) -> str:
        frontend = made.select("m", now, session)
        assert not isinstance(frontend, Refused)
        return frontend.cell.pool_id

    assert [pool(), pool("s1")] == ["e", "e"]
    loads |= {"e": Load(0.9), "w": Load(0.95), "f": Load(0.1)}
    assert [pool(), pool("s1", 300.9), pool("s1", 700.0)] == ["f", "e", "f"]
    loads["e"] = Load(0.79)
    assert pool() == "e"
    loads.clear()
    assert pool() == "e"
    frontend = made.select("m", 1.0)
    assert not isinstance(frontend, Refused)
    guards = [frontend.hold() for _ in range(9)]
    made.publish(catalog(listing("e", "east"), listing("w", "west")), 1.0)
    assert pool() == "w"
    guards.clear()
    for _ in range(5):
        for url in (frontend, made.select("m", 1.0)):
            assert not isinstance(url, Refused)
            made.failed(url, 1.0)
    assert pool() in "ew"


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nearby", "there is no policy 'nearby'; there is: .*least-in-flight.*round-robin"),
        ("broken", r"'broken' \(nearest_policy:broken\) cannot be loaded: RuntimeError: no such luck"),
        ("absent", "'absent' .* cannot be loaded: ModuleNotFoundError"),
        ("empty", "'empty' .* (cannot be loaded: TypeError|is no policy)"),
    ],
)
def test_a_policy_that_cannot_be_had_is_told_in_one_sentence(name: str, says: str) -> None:
    with pytest.raises(PolicyFault, match=says) as caught:
        load(name, installed(), ENVIRONMENT)
    assert "\n" not in str(caught.value)


def test_a_name_that_two_distributions_give_is_refused() -> None:
    found = [EntryPoint("twin", value, GROUP) for value in ("one:Policy", "two:Policy")]
    with pytest.raises(PolicyFault, match="more than once: one:Policy, two:Policy"):
        load("twin", found, ENVIRONMENT)


def test_what_makes_no_policy_is_refused() -> None:
    with pytest.raises(PolicyFault, match="is no policy: it has no chooser"):
        load("odd", [EntryPoint("odd", "operator:not_", GROUP)], ENVIRONMENT)
