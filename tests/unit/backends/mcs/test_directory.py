"""The directories of karmada and mcs, told what a reflector and a store tell them; time moves by hand."""

import json
from collections.abc import Iterable

import pytest

from gdsvc import model
from gdsvc.backends.indexed import IndexedDirectory
from gdsvc.backends.mcs.directory import JoinedRegistrar, McsPoolDirectory, McsReplicaDirectory, NoRegistrar
from gdsvc.backends.mcs.imported import STEP_SERVICES, ImportedSlices
from gdsvc.backends.mcs.naming import Mode, ServiceKey
from gdsvc.backends.mcs.pools import PoolServices
from gdsvc.backends.mcs.replicas import RouterService
from gdsvc.backends.mcs.slices import Services
from gdsvc.backends.memory import MemoryPoolStore
from gdsvc.errors import NotOffered, Unavailable
from gdsvc.kube.objects import EndpointSlice
from gdsvc.kube.watcher import Failed
from gdsvc.model import Lease, PoolKey, PoolListing, PoolLocation
from gdsvc.pool_discovery.explain import Explanation
from gdsvc.pool_discovery.lease_clock import LeaseClock
from gdsvc.pool_discovery.watch import Completeness, EncodedRemoval, EncodedUpsert, Resync
from tests.unit.backends.mcs.slice_objects import PORT, endpoint, holding, standard

STARTED_AT = "1970-01-01T00:00:00.000Z"
KEY = PoolKey("east", "relay", "llm")
LEASE_SECS = 15.0


class Stand:
    """Both directories of mode mcs; `time` is all clocks at once. `join` False: registrations are off."""

    def __init__(self, *, join: bool = True, hold_secs: float = 0.0) -> None:
        self.time = 0.0
        self.clock = LeaseClock(LEASE_SECS, lambda: self.time)
        self.slices = ImportedSlices(Mode.MCS, STARTED_AT, lambda: self.time, lambda: self.time, hold_secs)
        self.store = MemoryPoolStore(Lease(5, 15), self.clock, STARTED_AT, unix_now=lambda: self.time) if join else None
        self.told: list[str] = []
        self.pools = McsPoolDirectory(
            self.slices,
            PoolServices(),
            self.store,
            {"east": PoolLocation("us-east-2", "us-east-2a")},
            on_change=lambda event, key: self.told.append(f"{event} {key.decode().rpartition(chr(0))[2]}"),
            unix_now=lambda: self.time,
        )
        self.routers = McsReplicaDirectory(self.slices, RouterService("relay", "router", "http"))

    @property
    def joined(self) -> MemoryPoolStore:
        assert self.store is not None
        return self.store

    @property
    def registrar(self) -> JoinedRegistrar:
        return JoinedRegistrar(self.joined, self.pools)

    def relist(self, *slices: EndpointSlice, steps: bool = True) -> None:
        """A whole list, and every step of what it changes."""
        self.slices.init()
        for each in slices:
            self.slices.init_apply(each)
        self.slices.init_done("first")
        while steps and self.slices.advance() == 0.0:
            pass

    def pass_time(self, secs: float) -> None:
        until = self.time + secs
        while self.time < until:
            self.time = min(until, self.time + 0.0625)
            self.clock.tick()
            for advancing in (self.store, self.slices, self.pools):
                if advancing is not None:
                    advancing.advance()

    async def beat(self, name: str = "llm", **members: object) -> None:
        sent = json.dumps({"key": {"site_id": "east", "namespace": "relay", "dgd_name": name}, **members}).encode()
        if not await self.registrar.renew(sent):
            await self.registrar.register(model.decode_registration(sent), sent)

    async def listed(self, key: PoolKey = KEY) -> PoolListing | None:
        return next((pool for pool in (await self.pools.list()).items if pool.key == key), None)

    async def names(self) -> list[str]:
        return [pool.key.dgd_name for pool in (await self.pools.list()).items]

    def explained(self, key: PoolKey = KEY) -> Explanation:
        explained = self.pools.explain(key)
        assert explained is not None
        return explained


def relays(*addresses: str, pool: str = "llm", name: str = "r", cluster: str = "east") -> EndpointSlice:
    return holding(f"{name}-{pool}", *addresses, service=f"{pool}-pool-relay", cluster=cluster)


def frontends(*addresses: str, pool: str = "llm") -> EndpointSlice:
    return holding(f"f-{pool}", *addresses, service=f"{pool}-frontend")


def unready(pool: str = "llm") -> EndpointSlice:
    return standard(f"r-{pool}", f"{pool}-pool-relay", endpoints=[endpoint("10.0.0.1", ready=False)])


def events_since(directory: IndexedDirectory[PoolListing, PoolKey], place: int) -> list[str]:
    """The events behind `place`: `+name`, `-name`, `resync`."""
    told: list[str] = []
    for at in range(place, directory.changes.published):
        match directory.changes.at(at):
            case EncodedUpsert(key=key):
                told.append("+" + model.key_of(key).dgd_name)
            case EncodedRemoval(key=key):
                told.append("-" + model.key_of(key).dgd_name)
            case _:
                told.append("resync")
    return told


# ------------------------------------------------------------------------------------------ before the first list


async def test_nothing_is_shown_before_the_first_list() -> None:
    stand = Stand()
    for directory in (stand.pools, stand.routers):
        with pytest.raises(Unavailable, match="have not been listed yet"):
            await directory.list()
        with pytest.raises(Unavailable):
            directory.view()
    with pytest.raises(Unavailable):
        stand.pools.explain(KEY)


async def test_why_there_is_nothing_yet_names_the_last_failure() -> None:
    stand = Stand()
    assert stand.slices.not_ready() == "the EndpointSlices have not been listed yet"
    stand.slices.failed(Failed("connection", "no connection to the API server: refused"))
    assert stand.slices.not_ready().endswith("yet: no connection to the API server: refused")
    assert not stand.pools.sources()[0].complete
    stand.relist(relays("10.0.0.1"))
    assert stand.slices.not_ready() == ""


async def test_a_registration_before_the_first_list_is_joined_by_it() -> None:
    stand = Stand()
    await stand.beat(model="qwen")
    stand.relist(relays("10.0.0.1"))
    pool = await stand.listed()
    assert pool is not None
    assert pool.model == "qwen"


# --------------------------------------------------------------------------------------------------------- pools


async def test_a_pool_has_relays_frontends_and_the_location_of_its_cluster() -> None:
    stand = Stand()
    stand.relist(relays("10.0.0.2", "10.0.0.1"), frontends("10.0.1.1"))
    pool = await stand.listed()
    assert pool is not None
    assert pool.relay_identities == ("10.0.0.1", "10.0.0.2")
    assert pool.frontends == ("http://10.0.1.1:8000",)
    assert pool.location == PoolLocation("us-east-2", "us-east-2a")
    assert (pool.model, pool.capacity, pool.capabilities) == (None, None, ())


async def test_appearing_growing_and_leaving_are_one_event_each() -> None:
    stand = Stand()
    stand.relist()
    place = stand.pools.changes.published
    stand.slices.apply(relays("10.0.0.1"))
    stand.slices.apply(relays("10.0.0.1", "10.0.0.2"))
    stand.slices.apply(relays("10.0.0.1", "10.0.0.2"))  # says nothing new
    stand.slices.apply(frontends("10.0.1.1"))
    stand.slices.delete(relays())
    assert events_since(stand.pools, place) == ["+llm", "+llm", "+llm", "-llm"]
    assert stand.told == ["pool.listed llm", "pool.changed llm", "pool.changed llm", "pool.removed llm"]
    assert await stand.names() == []


async def test_the_revision_is_the_number_of_the_last_event() -> None:
    stand = Stand()
    stand.relist(relays("10.0.0.1"), relays("10.0.0.2", pool="b"))
    stand.slices.apply(relays("10.0.0.3", pool="c"))
    stand.slices.delete(relays(pool="b"))
    stand.pass_time(20)
    stand.slices.completeness(stale=True)
    stand.relist()
    revision, _ = stand.pools.view()
    assert revision == stand.pools.changes.published
    assert stand.routers.view()[0] == stand.routers.changes.published


async def test_an_event_of_one_pool_touches_no_other() -> None:
    stand = Stand()
    stand.relist(*(relays("10.0.0.1", pool=f"p{n}") for n in range(20)))
    place, encoded = stand.pools.changes.published, stand.pools.index.encodings
    stand.slices.apply(relays("10.0.0.2", pool="p7"))
    assert events_since(stand.pools, place) == ["+p7"]
    assert stand.pools.index.encodings - encoded == 1


async def test_a_pool_whose_last_endpoint_moves_between_slices_never_leaves() -> None:
    stand = Stand(hold_secs=0.3)
    stand.relist(relays("10.0.0.1"))
    place = stand.pools.changes.published
    stand.slices.delete(relays())
    stand.pass_time(0.2)
    stand.slices.apply(relays("10.0.0.1", name="other"))
    stand.pass_time(1)
    assert events_since(stand.pools, place) == []


async def test_what_is_held_is_let_go_by_time_alone() -> None:
    stand = Stand(hold_secs=0.3)
    stand.relist(relays("10.0.0.1"))
    stand.slices.delete(relays())
    stand.pass_time(0.25)
    assert await stand.names() == ["llm"]
    stand.pass_time(0.125)
    assert await stand.names() == []


async def test_a_list_is_told_in_steps_and_shown_only_whole() -> None:
    stand = Stand()
    count = 2 * STEP_SERVICES + 1
    stand.relist(*(relays("10.0.0.1", pool=f"p{n:04}") for n in range(count)), steps=False)
    assert len(stand.pools.index) == STEP_SERVICES
    with pytest.raises(Unavailable):
        stand.pools.view()
    assert stand.slices.advance() == 0.0
    assert len(stand.pools.index) == 2 * STEP_SERVICES
    assert stand.slices.advance() > 0.0
    assert len(await stand.names()) == count


async def test_a_list_that_comes_while_one_is_told_loses_nothing_of_either() -> None:
    stand = Stand()
    old = [relays("10.0.0.1", pool=f"p{n:04}") for n in range(2 * STEP_SERVICES)]
    stand.relist(*old, steps=False)
    stand.relist(*old[1:], relays("10.0.0.1", pool="new"))
    assert await stand.names() == sorted(["new", *(f"p{n:04}" for n in range(1, 2 * STEP_SERVICES))])


async def test_a_stale_view_is_exact_again_only_once_the_list_is_told_whole() -> None:
    stand = Stand(join=False)
    stand.relist(relays("10.0.0.1"))
    stand.slices.completeness(stale=True)
    assert stand.pools.view()[1] is Completeness.ESTIMATED
    stand.relist(*(relays("10.0.0.1", pool=f"p{n:04}") for n in range(STEP_SERVICES + 5)), steps=False)
    stand.slices.completeness(stale=False)
    assert stand.pools.view()[1] is Completeness.ESTIMATED
    place = stand.pools.changes.published
    stand.slices.advance()
    assert stand.pools.view()[1] is Completeness.EXACT
    assert events_since(stand.pools, place)[-1] == "resync"


async def test_an_empty_list_is_a_resync_without_members() -> None:
    stand = Stand(join=False)
    stand.relist(relays("10.0.0.1"))
    place = stand.pools.changes.published
    stand.relist()
    assert events_since(stand.pools, place) == ["-llm", "resync"]
    watch = stand.pools.list_and_watch()
    first = await anext(watch)
    assert isinstance(first, Resync)
    assert not tuple(first.snapshot.items)
    place = stand.pools.changes.published
    stand.relist()
    assert events_since(stand.pools, place) == ["resync"]


async def test_a_view_without_members_of_a_list_that_has_others_is_told_once_and_not_at_every_relist() -> None:
    """A cluster imports Services, none of them a pool's or the router's: a relist that changes nothing is quiet."""
    stand = Stand(join=False)
    other = holding("other", "10.0.0.9", service="database")
    stand.relist(other)
    assert events_since(stand.pools, 0)[0] == "resync"
    places = stand.pools.changes.published, stand.routers.changes.published
    stand.relist(other)
    stand.relist(other, holding("new", "10.0.0.8", service="cache"))
    assert (stand.pools.changes.published, stand.routers.changes.published) == places
    stand.slices.apply(relays("10.0.0.1"))
    stand.slices.delete(relays())
    stand.relist(other)
    assert events_since(stand.pools, places[0]) == ["+llm", "-llm", "resync"]
    assert stand.routers.changes.published == places[1]


class Stumbling:
    """A reader that raises at what holds `at`, so often."""

    def __init__(self, at: ServiceKey, times: int) -> None:
        self.at = at
        self.times = times

    def services_changed(self, services: Services, cause: str) -> None:
        if self.at in services and self.times:
            self.times -= 1
            raise LookupError(cause)

    def listed_anew(self, *, empty: bool) -> None:
        pass

    def trust_changed(self) -> None:
        pass


def stand_behind(stumbling: Stumbling) -> Stand:
    """A stand whose directories are told after `stumbling`."""
    stand = Stand(join=False)
    slices = stand.slices = ImportedSlices(Mode.MCS, STARTED_AT, lambda: stand.time, lambda: stand.time, 0.0)
    slices.add(stumbling)
    stand.pools = McsPoolDirectory(slices, PoolServices())
    return stand


@pytest.mark.parametrize("number", [0, STEP_SERVICES + 3])
async def test_a_list_whose_telling_a_reader_interrupts_is_told_whole_later(number: int) -> None:
    """In the first step, which the reflector hears of, and in a later one, which the Pulse does."""
    stand = stand_behind(Stumbling(ServiceKey("east", "relay", f"p{number:04}-pool-relay"), 2))
    names = [f"p{n:04}" for n in range(2 * STEP_SERVICES)]
    failures = 0
    try:
        stand.relist(*(relays("10.0.0.1", pool=name) for name in names), steps=False)
    except LookupError:
        failures += 1
    while not stand.slices.synced:
        assert not stand.slices.exact
        try:
            stand.slices.advance()
        except LookupError:
            failures += 1
    assert failures == 2
    assert await stand.names() == names


async def test_an_event_that_a_reader_raises_at_is_told_by_the_next_step() -> None:
    stand = stand_behind(Stumbling(ServiceKey("east", "relay", "llm-pool-relay"), 1))
    stand.relist()
    with pytest.raises(LookupError):
        stand.slices.apply(relays("10.0.0.1"))
    assert await stand.names() == []
    stand.pass_time(0.25)
    assert await stand.names() == ["llm"]


# -------------------------------------------------------------------------------------------------- completeness


async def test_the_joined_list_is_complete_once_both_sides_are() -> None:
    stand = Stand()
    stand.relist(relays("10.0.0.1"))
    stand.pass_time(14.9375)
    assert stand.pools.view()[1] is Completeness.ESTIMATED
    assert stand.routers.view()[1] is Completeness.EXACT
    place = stand.pools.changes.published
    stand.pass_time(0.0625)
    assert stand.pools.view()[1] is Completeness.EXACT
    assert events_since(stand.pools, place) == ["resync"]


async def test_without_registrations_the_slices_alone_decide() -> None:
    stand = Stand(join=False)
    stand.relist(relays("10.0.0.1"))
    assert stand.pools.view()[1] is Completeness.EXACT
    assert [source.name for source in stand.pools.sources()] == ["endpointslices"]


async def test_going_stale_and_coming_back_resync_and_change_no_member() -> None:
    stand = Stand(join=False)
    stand.relist(relays("10.0.0.1"))
    for stale, expected in ((True, Completeness.ESTIMATED), (False, Completeness.EXACT)):
        places = stand.pools.changes.published, stand.routers.changes.published
        stand.slices.completeness(stale=stale)
        assert stand.pools.view()[1] is expected
        assert events_since(stand.pools, places[0]) == ["resync"]
        assert stand.routers.changes.published == places[1] + 1
        assert await stand.names() == ["llm"]


async def test_a_stale_source_keeps_the_instant_of_what_it_last_knew() -> None:
    stand = Stand(join=False)
    stand.pass_time(5)
    stand.relist(relays("10.0.0.1"))
    stand.pass_time(60)
    stand.slices.failed(Failed("timeout", "the API server is silent"))
    stand.slices.completeness(stale=True)
    (source,) = stand.pools.sources()
    assert (source.complete, source.as_of) == (False, "1970-01-01T00:00:05.000Z")
    assert "the API server is silent" in source.detail
    assert stand.slices.silent_secs == 60.0


async def test_a_failure_is_told_until_something_good_comes_or_two_minutes_pass() -> None:
    stand = Stand(join=False)
    stand.relist(relays("10.0.0.1"))
    healthy = stand.pools.sources()[0].detail
    stand.slices.failed(Failed("timeout", "silent"))
    assert "silent" in stand.pools.sources()[0].detail
    stand.slices.apply(relays("10.0.0.2"))
    assert stand.pools.sources()[0].detail == healthy
    stand.slices.failed(Failed("timeout", "silent"))
    stand.pass_time(119)
    assert "silent" in stand.pools.sources()[0].detail
    stand.pass_time(1)
    assert stand.pools.sources()[0].detail == healthy


# ---------------------------------------------------------------------------------------------------------- join


async def test_a_registration_adds_facts_and_no_membership() -> None:
    stand = Stand()
    stand.relist()
    await stand.beat(model="qwen", capacity={"live_workers": 3}, capabilities=["chat"], frontends=["http://f:1"])
    assert await stand.names() == []
    stand.slices.apply(relays("10.0.0.1"))
    pool = await stand.listed()
    assert pool is not None
    assert (pool.model, pool.capabilities, pool.frontends) == ("qwen", ("chat",), ("http://f:1",))
    stand.slices.apply(frontends("10.0.1.1"))
    pool = await stand.listed()
    assert pool is not None
    assert pool.frontends == ("http://10.0.1.1:8000",)


async def test_facts_outlive_the_lease_while_slices_keep_the_pool() -> None:
    stand = Stand()
    stand.relist(relays("10.0.0.1"))
    await stand.beat(model="qwen")
    stand.pass_time(60)
    pool = await stand.listed()
    assert pool is not None
    assert pool.model == "qwen"
    await stand.beat(model="llama")
    pool = await stand.listed()
    assert pool is not None
    assert pool.model == "llama"


async def test_facts_without_slices_live_as_long_as_their_lease() -> None:
    stand = Stand()
    stand.relist(relays("10.0.0.1"))
    await stand.beat(model="qwen")
    stand.slices.delete(relays())
    stand.pass_time(16)
    stand.slices.apply(relays("10.0.0.1"))
    pool = await stand.listed()
    assert pool is not None
    assert pool.model is None


@pytest.mark.parametrize("age_secs", [1.0, 60.0], ids=["leased", "outlived"])
async def test_a_delete_drops_the_facts_and_not_the_pool(age_secs: float) -> None:
    stand = Stand()
    stand.relist(relays("10.0.0.1"))
    await stand.beat(model="qwen")
    stand.pass_time(age_secs)
    assert await stand.registrar.deregister(KEY)
    pool = await stand.listed()
    assert pool is not None
    assert pool.model is None
    assert not await stand.registrar.deregister(KEY)


async def test_where_nothing_registers_every_write_says_why() -> None:
    registrar = NoRegistrar(Lease(5, 15), "none registers here")
    for call in (registrar.renew(b"{}"), registrar.register(None), registrar.deregister(KEY)):
        with pytest.raises(NotOffered, match="none registers here"):
            await call


# ------------------------------------------------------------------------------------------------------- explain


async def test_explain_names_slices_conditions_and_the_state_of_the_watch() -> None:
    stand = Stand()
    stand.relist(relays("10.0.0.1"), frontends("10.0.1.1"))
    await stand.beat(model="qwen")
    told = stand.explained()
    assert told.listed
    assert "1 Ready PoolRelay address" in told.reason
    assert told.lease is not None
    assert told.registrations.count == 1
    slices = next(source for source in told.sources if source.name == "endpointslices")
    assert slices.detail == (
        "listed, and followed by a watch; llm-pool-relay: r-llm: 10.0.0.1 Ready; llm-frontend: f-llm: 10.0.1.1 Ready"
    )


async def test_explain_says_that_no_relay_is_ready() -> None:
    stand = Stand()
    stand.relist(relays("10.0.0.1"))
    stand.slices.apply(unready())
    told = stand.explained()
    assert not told.listed
    assert told.reason == "not listed: no PoolRelay behind the imported Service llm-pool-relay is Ready"
    assert "r-llm: 10.0.0.1 not Ready" in told.sources[0].detail
    assert [happening.event for happening in told.history] == ["listed", "removed"]


async def test_explain_joins_the_history_of_both_sides_in_order() -> None:
    stand = Stand()
    stand.relist(relays("10.0.0.1"))
    stand.pass_time(1)
    await stand.beat(model="qwen")
    stand.pass_time(1)
    stand.slices.delete(relays())
    told = stand.explained()
    assert [(each.at[17:19], each.event) for each in told.history] == [
        ("00", "listed"), ("01", "changed"), ("01", "registered"), ("02", "removed"),
    ]  # fmt: skip
    assert told.reason == "not listed: it is registered, but no imported slice has a Ready PoolRelay"


async def test_a_pool_that_left_is_explained_by_what_took_it_and_a_stranger_is_unknown() -> None:
    stand = Stand()
    stand.relist(relays("10.0.0.1"))
    stand.slices.delete(relays())
    assert stand.explained().reason.startswith(
        "not listed since 1970-01-01T00:00:00.000Z: no PoolRelay is Ready any more"
    )
    assert stand.pools.explain(PoolKey("east", "relay", "stranger")) is None


async def test_a_registration_that_ends_later_is_not_why_a_pool_left_nor_why_it_was_never_listed() -> None:
    stand = Stand()
    stand.relist(relays("10.0.0.1"))
    await stand.beat()
    await stand.beat("stranger")
    stand.pass_time(1)
    stand.slices.delete(relays())
    stand.pass_time(LEASE_SECS)
    assert stand.explained().history[-1].event == "expired"
    assert stand.explained().reason.startswith(
        "not listed since 1970-01-01T00:00:01.000Z: no PoolRelay is Ready any more"
    )
    assert stand.explained(PoolKey("east", "relay", "stranger")).reason == (
        "not listed: its registration has ended, and no imported slice has a Ready PoolRelay"
    )


# ------------------------------------------------------------------------------------------------------- routers


def router(
    *endpoints: object, cluster: str = "east", name: str = "router", ports: Iterable[object] = (PORT,)
) -> EndpointSlice:
    return standard(f"{cluster}-{name}", name, cluster, endpoints=list(endpoints), ports=list(ports))


async def test_routers_are_the_ready_endpoints_of_the_service_in_every_cluster() -> None:
    stand = Stand()
    stand.relist(
        router(endpoint("10.0.0.1", pod="r-0"), endpoint("10.0.0.2", pod="r-1", ready=False)),
        router(endpoint("fd00::1", pod="r-0"), cluster="west"),
        router(endpoint("10.0.0.9"), name="other"),
    )
    listed = (await stand.routers.list()).items
    assert [(each.id, each.url) for each in listed] == [
        ("east/relay/r-0", "http://10.0.0.1:8000"),
        ("west/relay/r-0", "http://[fd00::1]:8000"),
    ]


async def test_a_router_that_moves_changes_and_one_that_leaves_is_removed() -> None:
    stand = Stand()
    stand.relist(router(endpoint("10.0.0.1", pod="r-0"), endpoint("10.0.0.2", pod="r-1")))
    place = stand.routers.changes.published
    stand.slices.apply(router(endpoint("10.0.0.3", pod="r-0")))
    told = [stand.routers.changes.at(at) for at in range(place, stand.routers.changes.published)]
    assert [(type(event).__name__, getattr(event, "key", None)) for event in told] == [
        ("EncodedUpsert", b"east/relay/r-0"),
        ("EncodedRemoval", b"east/relay/r-1"),
    ]
    assert [each.url for each in (await stand.routers.list()).items] == ["http://10.0.0.3:8000"]


async def test_without_a_router_service_no_router_is_listed() -> None:
    slices = ImportedSlices(Mode.MCS, STARTED_AT)
    directory = McsReplicaDirectory(slices, None)
    slices.init()
    slices.init_apply(router(endpoint("10.0.0.1")))
    slices.init_done("first")
    assert not (await directory.list()).items
    assert directory.view()[1] is Completeness.EXACT
