"""Replicas over one shared store, with an engine that is a dict: what each shows of what the others do."""

import pytest

from gdsvc import model
from gdsvc.backends.shared.reading import Trust
from gdsvc.backends.shared.sightings import FIRST_SIGHT_GRACE_SECS, Renewal
from gdsvc.backends.shared.store import Registration, SharedPoolStore, Shown
from gdsvc.errors import Unavailable
from gdsvc.model import Lease, PoolKey, PoolRegistration, RouterReplica, sort_key
from gdsvc.pool_discovery.fanout import Lagged
from gdsvc.pool_discovery.watch import Completeness
from tests.unit.backends.shared.shelf import Replica, Shelf, pool_store, replica_store

PoolReplica = Replica[SharedPoolStore]

KEY = PoolKey("s", "n", "p")
P = sort_key(KEY)


def pool(said: str = "m") -> PoolRegistration:
    return PoolRegistration(KEY, model=said)


class Fleet:
    """Replicas on one shelf and one monotonic clock; a step polls all of them every two seconds."""

    def __init__(self, *replicas: PoolReplica, time: list[float], shelf: Shelf) -> None:
        self.time, self.shelf, self.replicas = time, shelf, replicas

    def pass_until(self, at: float) -> None:
        while self.time[0] < at:
            self.time[0] = min(at, self.time[0] + 0.5)
            for replica in self.replicas:
                replica.clock.tick()
                replica.store.advance()
                if self.time[0] % 2 == 0:
                    replica.poll()


def fleet(size: int = 2, *, wall_ahead_secs: float = 0.0, leases: tuple[int, ...] = ()) -> Fleet:
    shelf, time = Shelf(), [0.0]
    granted = leases or (15,) * size
    replicas = [Replica(shelf, time, pool_store, Lease(1, secs)) for secs in granted]
    replicas[0].wall_ahead_secs = wall_ahead_secs
    for replica in replicas:
        replica.poll()
    return Fleet(*replicas, time=time, shelf=shelf)


def models(replica: PoolReplica) -> list[str | None]:
    replica.store.view()
    return [model.decode_listing(encoded).model for encoded in replica.store.index.listings()]


def complete(replica: PoolReplica) -> bool:
    return replica.store.view()[1] is Completeness.EXACT


# ------------------------------------------------------------------------------------------------- leases


async def test_what_one_replica_wrote_it_shows_at_once_and_the_other_with_its_next_reading() -> None:
    stand = fleet()
    a, b = stand.replicas
    await a.store.register(pool())
    assert (models(a), models(b)) == (["m"], [])
    b.poll()
    assert models(b) == ["m"]


async def test_a_replica_renews_what_it_has_read_without_reading_it_once_more() -> None:
    stand = fleet()
    a, b = stand.replicas
    await a.store.register(pool())
    b.poll()
    written: list[str] = []
    b.engine.before_writing = lambda: written.append("again")
    await b.store.register(pool(), b"body")
    assert (written, b.engine.renewals) == ([], 1)
    assert await b.store.renew(b"body")
    await b.store.register(pool("other"), b"other")
    assert (written, models(b)) == (["again"], ["other"])


async def test_a_renewal_of_what_changes_meanwhile_is_not_remembered_as_what_is_shown() -> None:
    stand = fleet()
    a, b = stand.replicas
    await a.store.register(pool())
    b.poll()
    later = Registration(2, model.encode_listing(pool("other")))
    b.engine.before_renewing = lambda: b.store.show(P, Renewal("later", b.unix_now(), 15.0, 2), later)
    await b.store.register(pool(), b"body")
    assert models(b) == ["other"]
    assert not await b.store.renew(b"body")


@pytest.mark.parametrize("wall_ahead_secs", [-3600.0, 0.0, 20.0, 500.0])
async def test_a_pool_that_heartbeats_through_either_replica_stays_on_both_whatever_their_clocks_say(
    wall_ahead_secs: float,
) -> None:
    stand = fleet(wall_ahead_secs=wall_ahead_secs)
    a, b = stand.replicas
    await a.store.register(pool(), b"body")
    for beat in range(1, 60):
        stand.pass_until(float(beat))
        through = (a, b)[beat % 2].store
        if not await through.renew(b"body"):
            await through.register(pool(), b"body")
        stand.replicas[0].wall_ahead_secs += (-60.0, 60.0)[beat % 2]
    assert [event for replica in stand.replicas for event, _ in replica.told] == ["pool.registered"] * 2


async def test_a_silent_pool_is_gone_everywhere_within_a_lease_and_two_readings() -> None:
    stand = fleet()
    await stand.replicas[0].store.register(pool())
    stand.pass_until(14.5)
    assert [models(replica) for replica in stand.replicas] == [["m"], ["m"]]
    stand.pass_until(19.0)
    assert [models(replica) for replica in stand.replicas] == [[], []]


async def test_the_lease_that_counts_is_the_one_that_the_writer_granted() -> None:
    stand = fleet(leases=(60, 15))
    await stand.replicas[0].store.register(pool())
    stand.pass_until(58.0)
    assert models(stand.replicas[1]) == ["m"]
    explained = stand.replicas[1].store.explain(KEY)
    assert explained is not None
    assert explained.lease is not None
    assert explained.lease.age_secs == 56.0
    stand.pass_until(64.0)
    assert models(stand.replicas[1]) == []


async def test_a_pool_that_expired_here_does_not_come_back_by_the_renewal_it_left_behind() -> None:
    stand = fleet()
    await stand.replicas[0].store.register(pool())
    stand.pass_until(100.0)
    assert [models(replica) for replica in stand.replicas] == [[], []]
    assert [event for event, _ in stand.replicas[1].told] == ["pool.registered", "pool.expired"]


async def test_a_read_that_is_seconds_old_makes_nothing_flap_and_nothing_live_longer() -> None:
    stand = fleet()
    a, b = stand.replicas
    await a.store.register(pool(), b"body")
    before = dict(stand.shelf.renewals)
    b.poll()
    for at in (2.0, 4.0, 6.0):
        stand.time[0] = at
        await a.store.renew(b"body")
        for replica in (a, b):
            replica.clock.tick()
            replica.poll()
            replica.poll(before)  # a node of the store that lags behind
    stand.pass_until(20.0)
    b.poll(before)
    assert models(b) == ["m"]
    stand.pass_until(24.0)
    assert models(b) == []
    b.poll(before)
    assert models(b) == []


# ------------------------------------------------------------------------------------------- a new replica


async def test_a_new_replica_lists_all_at_once_and_is_complete_a_lease_later() -> None:
    stand = fleet(1)
    await stand.replicas[0].store.register(pool(), b"body")
    late = Replica(stand.shelf, stand.time, pool_store)
    with pytest.raises(Unavailable):
        late.store.view()
    late.poll()
    assert (models(late), complete(late)) == (["m"], False)
    both = Fleet(*stand.replicas, late, time=stand.time, shelf=stand.shelf)
    both.pass_until(12.0)
    await stand.replicas[0].store.renew(b"body")
    both.pass_until(14.5)
    assert not complete(late)
    both.pass_until(16.0)
    assert (models(late), complete(late)) == (["m"], True)


async def test_a_new_replica_does_not_list_what_died_long_before() -> None:
    shelf, time = Shelf(), [0.0]
    old = Replica(shelf, time, pool_store)
    old.poll()
    await old.store.register(pool())
    time[0] = 16.0 + FIRST_SIGHT_GRACE_SECS
    late = Replica(shelf, time, pool_store)
    late.poll()
    assert models(late) == []
    await old.store.register(pool())
    late.poll()
    assert models(late) == ["m"]


async def test_a_registration_is_fetched_once_for_each_of_its_versions() -> None:
    stand = fleet()
    a, b = stand.replicas
    for said in ("m", "m", "n", "n"):
        await a.store.register(pool(said))
        b.poll()
        b.poll()
    assert (b.fetched, models(b)) == (2, ["n"])


@pytest.mark.parametrize(
    "payload",
    [b"", b"no JSON", b'{"key":1}', b"[" * 100, model.encode_listing(PoolRegistration(PoolKey("s", "n", "another")))],
)
async def test_a_registration_that_is_none_of_that_name_is_not_shown_and_harms_nothing(payload: bytes) -> None:
    stand = fleet()
    a, b = stand.replicas
    await a.store.register(pool())
    stand.shelf.registrations[P] = Registration(1, payload)
    assert b.poll() == [Shown.UNREADABLE]
    assert models(b) == []
    await a.store.register(pool("again"))
    assert b.poll() == [Shown.TAKEN]
    assert models(b) == ["again"]


async def test_a_renewal_without_a_registration_is_ignored() -> None:
    stand = fleet()
    stand.shelf.renewals[P] = Renewal("s0", stand.replicas[0].unix_now(), 15.0, 7)
    assert stand.replicas[0].poll() == [Shown.NOTHING]
    assert models(stand.replicas[0]) == []


# ------------------------------------------------------------------------------------------------- outages


async def test_an_outage_ages_no_lease_and_is_told_after_a_minute() -> None:
    stand = fleet()
    a = stand.replicas[0]
    await a.store.register(pool(), b"body")
    stand.pass_until(4.0)
    for beat in range(5, 17):
        stand.pass_until(float(beat))
        await a.store.renew(b"body")
    assert complete(a)
    stand.shelf.broken = True
    stand.pass_until(77.5)
    assert (complete(a), a.store.trust) == (True, Trust.WHOLE)
    with pytest.raises(Unavailable):
        await a.store.renew(b"body")
    with pytest.raises(Unavailable):
        await a.store.register(pool("n"))
    stand.pass_until(78.0)
    assert [(complete(r), r.store.trust, models(r)) for r in stand.replicas] == [(False, Trust.STALE, ["m"])] * 2
    stand.pass_until(106.0)
    stand.shelf.broken = False
    for replica in stand.replicas:
        replica.poll()
    assert [(complete(replica), models(replica)) for replica in stand.replicas] == [(True, ["m"])] * 2
    await a.store.renew(b"body")
    stand.pass_until(118.0)
    assert [models(replica) for replica in stand.replicas] == [["m"], ["m"]]
    assert [event for event, _ in a.told] == ["pool.registered"]


async def test_each_change_of_trust_begins_anew_so_that_a_tag_never_stands_for_two_lists() -> None:
    stand = fleet(1)
    a = stand.replicas[0]
    stand.shelf.broken = True
    stand.pass_until(63.0)
    told = [a.store.changes.at(place) for place in range(a.store.changes.published)]
    assert [type(event) for event in told] == [Lagged]
    assert a.store.view() == (1, Completeness.ESTIMATED)
    assert "failed for a minute" in a.store.sources()[0].detail


# ------------------------------------------------------------------------------------------------- changes


async def test_a_change_through_one_replica_is_shown_by_the_other_and_makes_the_old_body_a_change_again() -> None:
    stand = fleet()
    a, b = stand.replicas
    await a.store.register(pool("m"), b"m")
    b.poll()
    await b.store.register(pool("n"), b"n")
    a.poll()
    assert (models(a), models(b)) == (["n"], ["n"])
    assert not await a.store.renew(b"m")
    await a.store.register(pool("m"), b"m")
    b.poll()
    assert (models(a), models(b)) == (["m"], ["m"])


async def test_a_payload_that_arrives_late_does_not_undo_the_one_that_came_after_it() -> None:
    stand = fleet()
    a, b = stand.replicas
    await a.store.register(pool("m"))
    b.poll()

    def overtaken() -> None:
        stand.shelf.registrations[P] = Registration(2, model.encode_listing(pool("newer")))

    a.engine.before_writing = overtaken
    await a.store.register(pool("late"), b"late")
    a.engine.before_writing = lambda: None
    assert models(a) == ["newer"]
    assert not await a.store.renew(b"late"), "what is not shown is not renewed by its body"
    b.poll()
    assert models(b) == ["newer"]


async def test_a_renewal_of_an_older_version_keeps_the_lease_and_undoes_nothing() -> None:
    stand = fleet()
    a, b = stand.replicas
    await a.store.register(pool("m"), b"m")
    b.poll()
    await b.store.register(pool("n"))
    assert await a.store.renew(b"m"), "it has not read the change yet"
    b.poll()
    assert models(b) == ["n"]
    assert stand.shelf.renewals[P].version == 1
    stand.pass_until(14.0)
    assert models(b) == ["n"]


async def test_two_relays_that_disagree_through_two_replicas_are_a_conflict_on_both() -> None:
    stand = fleet()
    a, b = stand.replicas
    for _ in range(6):
        await a.store.register(pool("m"))
        b.poll()
        await b.store.register(pool("n"))
        a.poll()
        stand.pass_until(stand.time[0] + 1.0)
    assert a.store.conflicts > 3
    assert b.store.conflicts > 3
    stand.pass_until(stand.time[0] + 2.0)
    assert (models(a), models(b)) == (["n"], ["n"])


# --------------------------------------------------------------------------------------------- deregistering


async def test_a_deregistration_holds_here_at_once_and_elsewhere_with_the_next_reading() -> None:
    stand = fleet()
    a, b = stand.replicas
    await a.store.register(pool(), b"body")
    b.poll()
    assert await b.store.deregister(KEY)
    assert (models(a), models(b)) == (["m"], [])
    a.poll()
    assert models(a) == []
    assert not await a.store.renew(b"body")
    assert not await a.store.deregister(KEY)
    await a.store.register(pool(), b"body")
    b.poll()
    assert (models(a), models(b)) == (["m"], ["m"])


async def test_a_pool_that_this_replica_has_not_read_yet_can_be_deregistered() -> None:
    stand = fleet()
    a, b = stand.replicas
    await a.store.register(pool())
    assert await b.store.deregister(KEY)
    a.poll()
    assert models(a) == []


async def test_what_has_lapsed_or_never_was_is_not_there_to_be_deregistered() -> None:
    stand = fleet()
    a, b = stand.replicas
    assert not await a.store.deregister(KEY)
    await a.store.register(pool())
    stand.pass_until(40.0)
    assert not await b.store.deregister(KEY)
    assert not stand.shelf.renewals[P].gone


async def test_a_name_that_the_store_dropped_on_purpose_is_gone_and_may_come_again() -> None:
    stand = fleet(1)
    a = stand.replicas[0]
    await a.store.register(pool())
    a.store.gone(P)
    assert models(a) == []
    a.poll()
    assert models(a) == ["m"]


async def test_what_is_only_absent_lives_to_the_end_of_its_lease_and_is_forgotten_then() -> None:
    stand = fleet(1)
    a = stand.replicas[0]
    await a.store.register(pool())
    stand.shelf.renewals.clear()
    stand.pass_until(14.0)
    assert models(a) == ["m"]
    stand.pass_until(20.0)
    assert models(a) == []
    assert len(a.store._sightings) == 0


# ------------------------------------------------------------------------------------------ router replicas


async def test_fixed_router_ids_stay_whatever_the_store_says_of_them() -> None:
    shelf, time = Shelf(), [0.0]
    other = Replica(shelf, time, replica_store())
    other.poll()
    await other.store.register(RouterReplica("a", "http://elsewhere"))
    mine = Replica(shelf, time, replica_store(RouterReplica("a", "http://fixed")))
    mine.poll()
    await other.store.deregister("a")
    mine.poll()
    mine.store.gone(b"a")
    assert mine.store.index.listings() == [b'{"id":"a","url":"http://fixed"}']
