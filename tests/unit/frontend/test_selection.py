"""What every selector promises, whichever policy chooses: agreement, turns and counts that outlive catalogs."""

import asyncio
import gc
import sys
import threading
from collections import Counter

import pytest

from gdsvc._in_flight import Frontend
from gdsvc.frontend.catalog import NOTHING_YET, static
from gdsvc.frontend.ejection import Ejection
from gdsvc.frontend.policies.policy import Policy
from gdsvc.frontend.selection import MOST_RESTING, Refused, Selector
from tests.unit.frontend.fleets import POLICIES, catalog, fleet, listing, names, selected, selector


@pytest.fixture(params=POLICIES)
def policy(request: pytest.FixtureRequest) -> Policy:
    return POLICIES[request.param]()


# ----------------------------------------------------------------------------------------------------- candidates


def test_a_request_goes_to_a_pool_that_serves_its_model(policy: Policy) -> None:
    made = selector(policy, *fleet("ab"), *fleet("xyz", "n"), listing("q", None))
    assert set(names(made, 6)) == set("ab")
    assert set(names(made, 6, "n")) == set("xyz")


def test_every_candidate_is_served_once_a_round_and_its_frontends_in_turn(policy: Policy) -> None:
    made = selector(policy, listing("a", frontends=3), listing("b"), listing("c", frontends=2))
    urls: list[str] = []
    for _ in range(6):
        pools = [selected(made) for _ in range(3)]
        assert {frontend.cell.pool_id for frontend in pools} == set("abc")
        urls += [frontend.url for frontend in pools]
    assert {url: urls.count(url) for url in urls} == {
        **{f"http://a{number}": 2 for number in (1, 2, 3)},
        **{f"http://c{number}": 3 for number in (1, 2)},
        "http://b1": 6,
    }


def test_models_that_alternate_starve_nobody(policy: Policy) -> None:
    made = selector(policy, *fleet("ab"), *fleet("xy", "n"))
    served = Counter(names(made, 1, model) for _ in range(10) for model in ("m", "n"))
    assert served == dict.fromkeys("abxy", 5)


def test_static_pools_serve_every_model_from_one_set(policy: Policy) -> None:
    made = Selector(policy, Ejection())
    made.publish(static([("a", ("http://a",)), ("b", ("http://b",))]), 0.0)
    assert Counter(names(made, 1, f"model-{number}") for number in range(10)) == {"a": 5, "b": 5}


def test_why_a_request_goes_nowhere_is_told_apart(policy: Policy) -> None:
    made = Selector(policy, Ejection())
    assert made.select("m", 0.0) is Refused.NOT_KNOWN_YET
    made.publish(catalog(*fleet("a"), complete=False), 0.0)
    assert made.select("n", 0.0) is Refused.NOT_KNOWN_YET
    made.publish(catalog(*fleet("a"), listing("b", "n", frontends=0)), 0.0)
    assert made.select("x", 0.0) is Refused.UNKNOWN_MODEL
    assert made.select("n", 0.0) is Refused.NOT_SELECTABLE
    assert made.select("m", 0.0, avoid=selected(made)) is Refused.NO_OTHER


def test_a_second_attempt_goes_elsewhere(policy: Policy) -> None:
    made = selector(policy, listing("a", frontends=2), listing("b"))
    for _ in range(12):
        first = selected(made)
        second = made.select("m", 0.0, avoid=first)
        assert isinstance(second, Frontend)
        assert second is not first


# ---------------------------------------------------------------------------------------------------- other catalogs


def test_turns_go_on_over_200_catalogs(policy: Policy) -> None:
    made = selector(policy, *fleet("abcd"))
    served = ""
    for turn in range(200):
        served += names(made, 1)
        made.publish(catalog(*fleet("abcd"), *fleet("xy"[: turn % 3], "n")), 0.0)
    assert [set(served[at : at + 4]) for at in range(0, 200, 4)] == [set("abcd")] * 50


def test_a_pool_that_loses_its_frontends_and_gets_them_back_is_served_as_before(policy: Policy) -> None:
    made = selector(policy, *fleet("abc"))
    names(made, 3)
    made.publish(catalog(*fleet("ac"), listing("b", frontends=0)), 0.0)
    assert set(names(made, 2)) == set("ac")
    made.publish(catalog(*fleet("abc")), 0.0)
    for _ in range(4):
        assert set(names(made, 3)) == set("abc")


@pytest.mark.parametrize("name", ["round-robin", "selection core"])
def test_a_model_that_flaps_keeps_its_turns(name: str) -> None:
    made = selector(POLICIES[name](), *fleet("abc"))
    before = names(made, 1)
    made.publish(catalog(), 0.0)
    made.publish(catalog(*fleet("abc")), 0.0)
    assert before not in names(made, 2)
    assert names(made, 1) == before


def test_requests_in_flight_are_counted_over_catalogs_and_found_again() -> None:
    made = selector(POLICIES["least-in-flight"](), *fleet("ab"))
    guards = [selected(made).hold() for _ in range(4)]
    made.publish(catalog(*fleet("b")), 0.0)
    assert {cell.pool_id: cell.in_flight for cell in made.cells()} == {"a": 2, "b": 2}
    made.publish(catalog(*fleet("abc")), 0.0)
    assert names(made, 1) == "c"
    held = {cell.pool_id: cell.in_flight for cell in made.cells()}
    for guard in guards:
        guard.release()
    assert held == {"a": 2, "b": 2, "c": 0}
    assert {cell.in_flight for cell in made.cells()} == {0}


def test_a_changed_address_is_used_for_the_next_request(policy: Policy) -> None:
    made = selector(policy, *fleet("a"))
    frontend = selected(made)
    made.publish(catalog(listing("a", frontends=2)), 0.0)
    assert {selected(made).url for _ in range(2)} == {"http://a1", "http://a2"}
    assert frontend in {selected(made) for _ in range(2)}


def test_pools_that_left_are_not_kept_for_ever(policy: Policy) -> None:
    made = Selector(policy, Ejection())
    for turn in range(100):
        made.publish(catalog(*(listing(f"{turn}-{number}", f"model {turn}") for number in range(3))), float(turn))
        selected(made, f"model {turn}")
    made.publish(catalog(), 101.0)
    gc.collect()
    for turn in range(MOST_RESTING):
        made.publish(catalog(listing("one", f"later {turn}")), 102.0)
    made.publish(catalog(), 103.0)
    gc.collect()
    assert [cell.pool_id for cell in made.cells()] in ([], ["one"])


# ---------------------------------------------------------------------------------------- reads and picks agree


def test_a_pool_that_replaces_another_causes_no_false_refusal_under_200_catalogs_and_concurrent_selects(
    policy: Policy,
) -> None:
    catalogs = [catalog(listing(name), listing("n" + name, "n")) for name in "abc"]
    made = Selector(policy, Ejection())
    made.publish(catalogs[0], 0.0)
    strange: list[object] = []
    done = threading.Event()

    def select() -> None:
        while not done.is_set():
            for model, pools in (("m", "a b c"), ("n", "na nb nc")):
                frontend = made.select(model, 0.0)
                if isinstance(frontend, Refused) or frontend.cell.pool_id not in pools.split():
                    strange.append(frontend)

    threads = [threading.Thread(target=select) for _ in range(3)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for turn in range(200):
            made.publish(catalogs[turn % 3], 0.0)
        done.set()
        for thread in threads:
            thread.join()
    finally:
        done.set()
        sys.setswitchinterval(interval)
    assert strange == []


async def test_tasks_that_select_between_200_catalogs_are_never_refused(policy: Policy) -> None:
    catalogs = [catalog(listing(name, frontends=2)) for name in "ab"]
    made = Selector(policy, Ejection())
    made.publish(catalogs[0], 0.0)

    async def request() -> None:
        for _ in range(50):
            with selected(made).hold() as guard:
                await asyncio.sleep(0)
                assert guard.frontend.cell.in_flight > 0

    async with asyncio.TaskGroup() as tasks:
        for _ in range(8):
            tasks.create_task(request())
        for turn in range(200):
            made.publish(catalogs[turn % 2], 0.0)
            if turn % 4 == 0:
                await asyncio.sleep(0)
    assert {cell.in_flight for cell in made.cells()} == {0}


# -------------------------------------------------------------------------------------------------------- ejection


def test_a_pool_that_keeps_failing_is_passed_over_and_comes_back_by_itself(policy: Policy) -> None:
    made = selector(policy, *fleet("abc"))
    failing = next(frontend for frontend in (selected(made) for _ in range(3)) if frontend.cell.pool_id == "b")
    assert [made.failed(failing, 100.0) for _ in range(5)] == [False] * 4 + [True]
    assert set(names(made, 6, now=109.9)) == set("ac")
    assert [(standing.frontend.cell.pool_id, standing.until) for standing in made.standings()] == [("b", 110.0)]
    assert "b" in names(made, 4, now=110.0)
    assert made.standings() == ()
    for _ in range(8):
        made.succeeded(failing)
    assert Counter(names(made, 9, now=111.0)) == dict.fromkeys("abc", 3)


def test_a_pool_stays_set_aside_over_other_catalogs(policy: Policy) -> None:
    made = selector(policy, *fleet("abc"))
    failing = next(frontend for frontend in (selected(made) for _ in range(3)) if frontend.cell.pool_id == "b")
    for _ in range(5):
        made.failed(failing, 100.0)
    made.publish(catalog(*fleet("abcd")), 101.0)
    made.publish(catalog(*fleet("acd")), 102.0)
    made.publish(catalog(*fleet("abcd")), 103.0)
    assert set(names(made, 9, now=104.0)) == set("acd")


def test_where_every_pool_fails_requests_still_go_out(policy: Policy) -> None:
    made = selector(policy, *fleet("ab"))
    for _ in range(20):
        made.failed(selected(made, now=1.0), 1.0)
    assert set(names(made, 4, now=1.0)) == set("ab")


def test_before_anything_is_published_nothing_is_known(policy: Policy) -> None:
    assert Selector(policy, Ejection()).catalog is NOTHING_YET
