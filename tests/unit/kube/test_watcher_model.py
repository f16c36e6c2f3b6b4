"""Whatever a server sends in whatever order: nothing raises, and what the outputs build is never half a list."""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from gdsvc.kube.framing import Unreadable
from gdsvc.kube.objects import ENDPOINT_SLICE, EndpointSlice, ListMeta
from gdsvc.kube.watcher import (
    Apply,
    Delete,
    Failed,
    Init,
    InitApply,
    InitDelete,
    InitDone,
    Listing,
    Output,
    Watcher,
    Watching,
)
from tests.unit.kube.events import bookmark, error, event, slice_, status

NAMES = st.sampled_from("abc")
REVISIONS = st.integers(1, 99)
CODES = st.sampled_from([400, 401, 410, 422, 429, 500, 503, 504])
LINES = st.one_of(
    st.builds(event, st.sampled_from(["ADDED", "MODIFIED", "DELETED", "OTHER"]), NAMES, REVISIONS),
    st.builds(lambda revision, end: bookmark(revision, end=end), REVISIONS, st.booleans()),
    st.builds(error, CODES, st.sampled_from([None, "Expired", "Timeout"])),
    st.binary(max_size=20),
)
Machine = Watcher[EndpointSlice]
Step = Callable[[Machine], list[Output[EndpointSlice]]]


def step(name: str, *arguments: object, only_listing: bool = False, never_listing: bool = False) -> Step:
    """One input, left out where the reflector would not give it in this state."""

    def take(machine: Machine) -> list[Output[EndpointSlice]]:
        listing = isinstance(machine.state, Listing)
        if (only_listing and not listing) or (never_listing and listing):
            return []
        return getattr(machine, name)(*arguments) or []

    return take


STEPS = st.one_of(
    LINES.map(lambda line: step("receive", line)),
    st.builds(slice_, NAMES, REVISIONS).map(lambda item: step("item", item, only_listing=True)),
    st.just(step("item", Unreadable("odd"), only_listing=True)),
    st.sampled_from(["", "7"]).map(lambda revision: step("listed", ListMeta(revision), only_listing=True)),
    CODES.map(lambda code: step("refused", code, status(code))),
    st.sampled_from([0.0, 50.0]).map(lambda lasted: step("ended", lasted, never_listing=True)),
    st.sampled_from(["opened", "fell_silent"]).map(step),
    st.just(step("broke", "connection", "reset")),
    st.just(step("relist", "interval")),
)


@settings(max_examples=300)
@given(st.booleans(), st.lists(STEPS, max_size=40))
def test_no_sequence_raises_or_shows_half_a_list(streaming: bool, steps: list[Step]) -> None:
    machine, initialising = Watcher(ENDPOINT_SLICE, streaming=streaming), False
    for take in steps:
        before = machine.state
        for output in take(machine):
            match output:
                case Init():
                    initialising = True
                case InitApply() | InitDelete():
                    assert initialising
                case InitDone():
                    assert initialising
                    assert isinstance(machine.state, Watching)
                    initialising = False
                case Apply() | Delete():
                    assert isinstance(before, Watching)
                case Failed(message=message):
                    assert message
        assert machine.ask().query.get("resourceVersion", "0").isdigit()
