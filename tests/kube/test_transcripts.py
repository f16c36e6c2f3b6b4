"""What a real API server said (kube-apiserver, recorded byte for byte), read by our parser and replayed on a socket."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from gdsvc.kube.framing import Items, Lines, Unreadable
from gdsvc.kube.objects import ENDPOINT_SLICE, EndpointSlice, ListMeta
from gdsvc.kube.watcher import Failed, Output, Watcher
from tests.kube.api_server import HEAD, answer, api_server, reply
from tests.kube.stand import standing, until

TRANSCRIPTS = Path(__file__).parent / "transcripts"


@dataclass(frozen=True)
class Exchange:
    """One recorded answer."""

    code: int
    body: bytes


def recorded(number: int) -> Exchange:
    """The exchange of the file whose name begins with this number."""
    (path,) = TRANSCRIPTS.glob(f"{number:02}-*.txt")
    head, _, body = path.read_bytes().replace(b"\r\n", b"\n").partition(b"\n\n")
    return Exchange(int(head.split(b"HTTP/1.1 ")[-1][:3]), body)


def items_of(number: int, step: int = 100) -> tuple[str, list[str]]:
    """The revision and the names of a recorded list."""
    items, found = Items(ENDPOINT_SLICE), list[EndpointSlice | Unreadable]()
    body = recorded(number).body
    for begin in range(0, len(body), step):
        found += items.feed(body[begin : begin + step])
    metadata, rest = items.close()
    return metadata.resource_version, [
        item.metadata.name if isinstance(item, EndpointSlice) else "?" for item in found + rest
    ]


def events_of(number: int, machine: Watcher[EndpointSlice]) -> list[Output[EndpointSlice]]:
    return [output for line in Lines().feed(recorded(number).body) for output in machine.receive(line)]


def shown(outputs: list[Output[EndpointSlice]]) -> list[str]:
    """`Apply a@872`, or the kind of a failure."""
    return [
        output.kind
        if isinstance(output, Failed)
        else f"{type(output).__name__} {output.item.metadata.name}@{output.item.metadata.resource_version}"
        if hasattr(output, "item")
        else type(output).__name__
        for output in outputs
    ]


def watching(revision: str) -> Watcher[EndpointSlice]:
    machine = Watcher(ENDPOINT_SLICE, streaming=False)
    machine.opened()
    machine.listed(ListMeta(revision))
    return machine


def test_the_recordings_are_all_here() -> None:
    assert len(list(TRANSCRIPTS.glob("*.txt"))) == 23


@pytest.mark.parametrize(
    ("number", "revision", "names"),
    [
        (0, "867", []),
        (4, "871", ["a", "b", "c", "d"]),
        (5, "871", ["a", "b"]),
        (6, "871", ["c", "d"]),
        (16, "878", ["c", "e"]),
    ],
)
@pytest.mark.parametrize("step", [1, 100, 100_000])
def test_recorded_lists_are_read_whole(number: int, revision: str, names: list[str], step: int) -> None:
    assert items_of(number, step) == (revision, names)


def test_a_recorded_page_says_that_it_is_one() -> None:
    items = Items(ENDPOINT_SLICE)
    list(items.feed(recorded(5).body))
    machine = Watcher(ENDPOINT_SLICE, streaming=False)
    assert shown(machine.listed(items.close()[0])) == ["unreadable"]


def test_a_recorded_watch_gives_its_changes() -> None:
    machine = watching("871")
    outputs = events_of(10, machine)
    assert [line.split("@")[0] for line in shown(outputs)] == ["Apply a", "Delete d", "Apply e"]
    assert machine.ask().query["resourceVersion"] == "875"  # of the bookmark just before the end


def test_a_recorded_streaming_list_becomes_a_view() -> None:
    machine = Watcher(ENDPOINT_SLICE)
    machine.opened()
    outputs = shown(events_of(11, machine))
    assert outputs.index("InitDone") == len(outputs) - 1
    assert {line.split()[0] for line in outputs[:-1]} == {"InitApply"}


def test_an_object_that_leaves_the_selection_is_deleted() -> None:
    assert shown(events_of(15, watching("876"))) == ["Delete b@877"]


def test_a_recorded_410_in_a_watch_leads_to_a_list_without_a_revision() -> None:
    machine = watching("5")
    assert shown(events_of(13, machine)) == ["expired"]
    assert machine.ask().query == {}


@pytest.mark.parametrize(
    ("number", "kind", "query"),
    [
        (9, "unauthorized", "7"),
        (8, "refused", "7"),
        (14, "refused", None),
        (17, "expired", None),
        (18, "too_large_revision", None),
        (22, "expired", None),
    ],
)
def test_recorded_refusals_decide_what_is_asked_next(number: int, kind: str, query: str | None) -> None:
    machine = watching("7")
    exchange = recorded(number)
    assert shown(machine.refused(exchange.code, exchange.body)) == [kind]
    assert machine.ask().query.get("resourceVersion") == query


def test_a_recorded_refusal_of_streaming_is_no_error() -> None:
    machine = Watcher(ENDPOINT_SLICE)
    exchange = recorded(12)
    assert machine.refused(exchange.code, exchange.body) == []
    assert machine.ask().query == {"resourceVersion": "0"}


async def test_recorded_answers_on_a_socket_give_the_recorded_view() -> None:
    """A streaming list refused, a list, a watch, 410, and a list again."""
    async with api_server() as api:
        for number in (12, 4):
            exchange = recorded(number)
            api.script.append(reply(answer(exchange.code, exchange.body)))
        api.script.append(reply(HEAD, recorded(10).body))
        api.script.append(reply(HEAD, recorded(13).body))
        api.script.append(reply(answer(200, recorded(16).body)))
        async with standing(api) as stand:
            await until(lambda: stand.kinds == ["ended_early"])
            assert stand.view.told == ["swap first a b c d", "apply a", "delete d", "apply e"]
            assert sorted(stand.view.items) == ["a", "b", "c", "e"]
            await stand.pass_time(1)
            await until(lambda: stand.kinds[-1] == "expired")
            await stand.pass_time(2)
            await until(lambda: stand.view.told[-1] == "swap expired c e")
            assert api.requests[3].query["resourceVersion"] == "875"
            assert api.requests[4].query == {}
