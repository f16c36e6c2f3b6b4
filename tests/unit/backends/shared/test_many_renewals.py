"""Renewals taken many at a time: which of them are, and that it comes to the same as showing them one by one."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from gdsvc.backends.shared.sightings import Renewal
from gdsvc.backends.shared.store import Registration, SharedPoolStore
from gdsvc.model import PoolKey, PoolRegistration, RouterReplica, encode, encode_listing, sort_key
from tests.unit.backends.shared.shelf import Replica, Shelf, pool_store, replica_store

NAMES = [sort_key(PoolKey("s", "n", name)) for name in "abc"]
UNIX = 1_800_000_000.0


class Said(Struct, frozen=True):
    name: bytes
    renewal: Renewal


def registration(name: bytes, version: int) -> Registration:
    key = PoolKey("s", "n", name.decode().rpartition("\0")[2])
    return Registration(version, encode_listing(PoolRegistration(key, model=f"m{version}")))


def renewal(stamp: str, version: int = 1, *, gone: bool = False) -> Renewal:
    return Renewal(stamp, UNIX, 15.0, version, gone)


def reading(time: list[float]) -> Replica[SharedPoolStore]:
    return Replica(Shelf(), time, pool_store)


def pass_until(at: float, time: list[float], *replicas: Replica[SharedPoolStore]) -> None:
    while time[0] < at:
        time[0] = min(at, time[0] + 0.5)  # a longer gap would be one in which nothing could be heard
        for replica in replicas:
            replica.clock.tick()


def shown(store: SharedPoolStore, said: Said) -> None:
    lacks = store.lacks(said.name, said.renewal)
    store.show(said.name, said.renewal, registration(said.name, said.renewal.version) if lacks else None)


def test_those_that_say_only_that_what_is_known_was_renewed_are_taken_and_the_others_given_back() -> None:
    store = reading([0.0]).store
    a, b, c = NAMES
    for name in (a, b, c):
        shown(store, Said(name, renewal("1")))
    said = [
        Said(a, renewal("1")),  # seen before
        Said(b, renewal("2")),
        Said(c, renewal("2", 2)),  # of a registration that is not known yet
        Said(b, renewal("3", gone=True)),
        Said(b"s\0n\0new", renewal("1")),
    ]
    assert store.renewed(said) == said[2:]


def test_one_that_names_an_older_registration_is_taken_and_given_back_to_be_corrected_as_often_as_it_is_found() -> None:
    time = [0.0]
    replica = reading(time)
    shown(replica.store, Said(NAMES[0], renewal("1", 2)))
    pass_until(10.0, time, replica)
    said = Said(NAMES[0], renewal("2", 1))
    for _ in range(2):
        assert replica.store.renewed([said]) == [said]
        assert replica.store.outdates(said.name, said.renewal) == 2
    assert replica.store.index.deadline(NAMES[0]) == 25.0


def test_what_is_taken_lives_on_from_then() -> None:
    time = [0.0]
    replica = reading(time)
    for name in NAMES[:2]:
        shown(replica.store, Said(name, renewal("1")))
    pass_until(10.0, time, replica)
    assert replica.store.renewed([Said(NAMES[0], renewal("2"))]) == []
    for at, listed in ((24.999, 1), (25.0, 0)):
        pass_until(at, time, replica)
        replica.store.read(replica.store.begin())
        assert len(replica.store.index) == listed


def test_a_router_of_the_command_line_is_left_as_it_is() -> None:
    router = RouterReplica("r", "http://10.0.0.1:8000")
    store = Replica(Shelf(), [0.0], replica_store(router)).store
    said = Said(b"r", renewal("1"))
    assert store.renewed([said]) == [said]
    store.show(b"r", said.renewal, Registration(1, encode(RouterReplica("r", "http://10.0.0.2:8000"))))
    assert store.index.listings() == [encode(router)]


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from(NAMES), st.integers(0, 9), st.integers(1, 3), st.booleans()), max_size=4),
        max_size=12,
    )
)
def test_it_comes_to_the_same_as_showing_them_one_by_one(passes: list[list[tuple[bytes, int, int, bool]]]) -> None:
    time = [0.0]
    replicas = reading(time), reading(time)
    one_by_one, many = (replica.store for replica in replicas)
    for number, found in enumerate(passes):
        pass_until(3.0 * number, time, *replicas)
        said = [Said(name, renewal(str(stamp), version, gone=gone)) for name, stamp, version, gone in found]
        said = list({each.name: each for each in said}.values())  # a table has one of each name
        for each in said:
            shown(one_by_one, each)
        for each in many.renewed(said):
            shown(many, each)
        for store in (one_by_one, many):
            store.read(store.begin())
        listed = one_by_one.index.listings()
        assert many.index.listings() == listed
        assert [many.index.deadline(name) for name in NAMES if name in many.index] == [
            one_by_one.index.deadline(name) for name in NAMES if name in one_by_one.index
        ]
