"""What a passage gives back, however it ends."""

from typing import Any

from gdsvc._passage import Desk, Passage
from gdsvc.errors import Unavailable
from gdsvc.frontend.bodies import Bounds, Incoming
from gdsvc.frontend.counts import NAMED_ROUTES, Counts
from gdsvc.frontend.headers import TOWARDS_CALLER, read


class Nobody:
    """In place of Departures: nobody leaves."""

    def watch(self, passage: object) -> None:
        pass

    def end(self, passage: object) -> None:
        pass


class Refused(Passage[dict[str, str], Any, Any, Desk]):
    """Gets no further than its body; `error` is why."""

    error: BaseException | None = None
    within: Bounds

    def arriving(self) -> Incoming:
        return Incoming(self.head.length, self.receive, self.within, self)

    async def failed(self, error: BaseException) -> None:
        self.error = error


async def test_a_last_part_for_which_there_is_no_room_is_waited_for_no_more() -> None:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"x" * 11, "more_body": False}

    async def send(message: object) -> None:
        raise AssertionError(message)

    counts = Counts()
    desk = Desk(Nobody(), counts.requests, counts.outcomes, TOWARDS_CALLER, frozenset(), counts.selection)
    route = NAMED_ROUTES[0]
    passage = Refused({}, receive, send, desk, read([], trusted=False), route, counts.first_byte[route])
    passage.within = Bounds(100, 10)
    await passage.run()
    assert isinstance(passage.error, Unavailable)
    assert (passage.within.waiting, passage.within.held, desk.in_flight) == (set(), 0, 0)
