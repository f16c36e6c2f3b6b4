"""What a LeaseView tells its store, of literal sequences of what a reflector and a writer tell it."""

from gdsvc import model
from gdsvc.backends.kubernetes import leases
from gdsvc.backends.kubernetes.echoes import Moment
from gdsvc.backends.kubernetes.leases import Member, Written
from gdsvc.backends.kubernetes.pacing import Pacing
from gdsvc.backends.kubernetes.view import LATE_SECS, STEP_LEASES, LeaseView
from gdsvc.backends.shared.sightings import Renewal
from gdsvc.backends.shared.store import Registration, Shown
from gdsvc.kube import objects
from gdsvc.kube.objects import LeaseMeta, LeaseSpec
from gdsvc.model import PoolKey, PoolRegistration


class Store:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def read(self, began_at: float) -> None:
        self.told.append(f"read {began_at:g}")

    def unread(self) -> None:
        self.told.append("unread")

    def show(self, name: bytes, renewal: Renewal, registration: Registration | None = None) -> Shown:
        assert registration is not None
        self.told.append(f"show {_short(name)} {renewal.stamp} {registration.version}")
        return Shown.TAKEN

    def gone(self, name: bytes) -> None:
        self.told.append(f"gone {_short(name)}")

    def prune(self, present: set[bytes]) -> None:
        self.told.append(f"prune {' '.join(sorted(map(_short, present)))}".rstrip())


def _short(name: bytes) -> str:
    return name.decode().rpartition("\0")[2]


class Bench:
    """A view on a clock that the test moves, and the store that it tells."""

    def __init__(self) -> None:
        self.time = 100.0
        self.view = LeaseView(Pacing(15.0, 0.0), lambda: Moment(self.time, self.time))
        self.store = Store()
        self.view.bind(Member.POOL, self.store)

    def told(self) -> list[str]:
        told, self.store.told = self.store.told, []
        return told

    def lists(self, *items: objects.Lease) -> None:
        self.view.init()
        for item in items:
            self.view.init_apply(item)
        self.view.init_done("first")


def lease(name: str = "p", renewed: str = "t1", *, version: int = 1, uid: str = "u1") -> objects.Lease:
    """A pool's Lease, as the API server tells it."""
    registration = PoolRegistration(PoolKey("s", "n", name), model=str(version))
    annotations = {leases.REGISTRATION: model.encode_listing(registration).decode(), leases.VERSION: f"{version}.aa"}
    labels = {leases.MEMBER_LABEL: "pool"}
    metadata = LeaseMeta(model.pool_id(registration.key), uid=uid, labels=labels, annotations=annotations)
    return objects.Lease(metadata, LeaseSpec(15, renewed))


def written(item: objects.Lease) -> Written:
    """The same as an answer."""
    read = leases.read(item)
    assert isinstance(read, Written)
    return read


def name_of(item: objects.Lease) -> str:
    return item.metadata.name


def test_a_list_is_told_whole_and_what_it_lacks_is_gone() -> None:
    bench = Bench()
    bench.lists(lease("p"), lease("q"))
    assert bench.told() == ["show p t1 1", "show q t1 1", "prune p q"]
    bench.lists(lease("q"))
    assert bench.told() == ["gone p", "show q t1 1", "prune q"]


def test_a_list_that_lacks_what_we_have_just_written_takes_it_from_nobody() -> None:
    bench = Bench()
    bench.view.sending(name_of(lease()), "t1")
    bench.view.written(written(lease()))
    bench.lists()
    assert bench.told() == ["prune p"]
    bench.view.apply(lease())  # as the watch tells it
    bench.told()
    bench.lists()
    assert bench.told() == ["gone p", "prune"]


def test_a_list_that_breaks_off_tells_nothing() -> None:
    bench = Bench()
    bench.view.init()
    bench.view.init_apply(lease("p"))
    bench.lists(lease("q"))
    assert bench.told() == ["show q t1 1", "prune q"]


def test_nothing_counts_as_seen_before_an_echo_and_then_all_until_it_was_sent() -> None:
    bench = Bench()
    bench.lists(lease("q"))
    bench.view.advance()
    assert bench.told() == ["show q t1 1", "prune q"]
    bench.view.sending(name_of(lease()), "t1")
    bench.time += 1.0
    bench.view.written(written(lease()))
    bench.view.advance()
    assert bench.told() == []
    bench.view.apply(lease())
    bench.view.advance()
    assert bench.told() == ["show p t1 1", "read 100"]


def test_a_list_that_holds_our_own_write_is_an_echo() -> None:
    bench = Bench()
    bench.view.sending(name_of(lease()), "t1")
    bench.view.written(written(lease()))
    bench.lists(lease())
    bench.view.advance()
    assert bench.told() == ["show p t1 1", "prune p", "read 100"]


def test_another_replicas_renewal_is_no_echo() -> None:
    bench = Bench()
    bench.view.sending(name_of(lease()), "t1")
    bench.lists()
    bench.told()
    bench.view.apply(lease(renewed="t2"))
    bench.view.advance()
    assert bench.told() == ["show p t2 1"]


def test_a_whole_list_counts_as_seen_once_its_last_step_is_told() -> None:
    bench = Bench()
    bench.view.sending(name_of(lease("p0")), "t1")
    bench.lists(*(lease(f"p{number}") for number in range(3 * STEP_LEASES)))
    bench.view.sending(name_of(lease("q")), "t9")
    bench.view.apply(lease("q", "t9"))  # an echo, while older things are still to be told
    assert bench.view.advance() == 0.0
    assert not any(each.startswith(("read", "prune")) for each in bench.told())
    assert bench.view.advance() == float("inf")
    assert bench.told()[-1] == "read 100"


def test_what_the_watch_tells_during_a_list_is_newer_than_the_list() -> None:
    bench = Bench()
    last = f"p{2 * STEP_LEASES - 1}"
    bench.lists(*(lease(f"p{number}") for number in range(2 * STEP_LEASES)))
    bench.told()
    bench.view.apply(lease(last, "t2", version=2))
    assert bench.told() == [f"show {last} t2 2"]
    bench.view.advance()
    assert not any(each.startswith(f"show {last} ") for each in bench.told())


def test_reading_fails_where_no_echo_comes_and_until_one_does() -> None:
    bench = Bench()
    bench.time += LATE_SECS - 0.001
    bench.view.advance()
    assert bench.told() == []
    bench.time += 0.001
    bench.view.advance()
    assert bench.told() == ["unread"]
    bench.lists()
    bench.view.sending(name_of(lease()), "t1")
    bench.view.apply(lease())
    bench.view.advance()
    assert bench.told() == ["prune", "read 103"]


def test_what_is_told_late_of_a_deleted_lease_lists_nothing() -> None:
    bench = Bench()
    bench.lists(lease())
    bench.view.taken_out(name_of(lease()))
    bench.told()
    bench.view.apply(lease(renewed="t2"))  # written by another before our DELETE
    assert bench.told() == []
    bench.view.delete(lease(renewed="t2"))
    bench.view.apply(lease(renewed="t3", uid="u2"))
    assert bench.told() == ["gone p", "show p t3 1"]


def test_a_lease_deleted_and_created_anew_unseen_is_gone_first() -> None:
    bench = Bench()
    bench.lists(lease(version=7))
    bench.told()
    bench.lists(lease(renewed="t2", uid="u2"))
    assert bench.told() == ["gone p", "show p t2 1", "prune p"]


def test_the_end_of_an_older_lease_does_not_end_the_newer() -> None:
    bench = Bench()
    bench.lists(lease())
    bench.view.sending(name_of(lease()), "t2")
    bench.view.written(written(lease(renewed="t2", uid="u2")))  # found in the place of the one we knew
    bench.told()
    bench.view.delete(lease())
    assert bench.told() == []


def test_what_the_watch_tells_before_the_answer_is_left_to_who_asked() -> None:
    bench = Bench()
    bench.lists()
    bench.told()
    bench.view.sending(name_of(lease()), "t1")
    bench.view.apply(lease())
    bench.view.written(written(lease()))
    assert bench.told() == []
    bench.view.sending(name_of(lease()), "t2")
    bench.view.apply(lease(renewed="t2"))
    bench.view.not_written(name_of(lease()))  # the answer never came
    assert bench.told() == ["show p t2 1"]


def test_an_answer_that_was_overtaken_takes_nothing_back() -> None:
    bench = Bench()
    bench.view.written(written(lease(version=3)))
    bench.view.written(written(lease(version=2)))
    known = bench.view.known(name_of(lease()))
    assert known is not None
    assert known.changes == 3
