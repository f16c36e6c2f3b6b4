"""One request's way to a pool and back as long as all goes well: its body in, a frontend asked, the answer out.

Which frontend, and what becomes of whatever goes wrong, is the subclass's part.
"""

from types import GenericAlias

from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from gdsvc._arriving cimport Arriving
from gdsvc._exchange cimport Exchange, Response
from gdsvc._heads cimport CallerHead, Sieve
from gdsvc._histogram cimport Histogram
from gdsvc._in_flight cimport Guard

cdef bytes EVENT_STREAM = b"text/event-stream"
cdef bytes CONTENT_TYPE = b"content-type"
cdef bytes DONE = b"data: [DONE]\n\n"
cdef str CONNECTED = "connected"
cdef str REUSED = "reused"
cdef str WHOLE = "whole"


cdef class Desk:
    """What the passages of one process share. They count requests in `requests`, by route, pool and status, and what
    came of asking pools in `outcomes`, by pool and outcome.

    `departures` is told by `watch(passage)` that a caller may leave, and by `end(passage)` that it is of no more
    interest. `sieve` makes the headers of an answer what the caller gets. Answers of a status among `notable` are told
    to the passage. `selection` takes the milliseconds that choosing a frontend takes, once for each request.
    """

    def __init__(self, departures, dict requests not None, dict outcomes not None, Sieve sieve not None,
                 frozenset notable not None, Histogram selection not None):
        self.departures = departures
        self.requests = requests
        self.outcomes = outcomes
        self.sieve = sieve
        self.notable = notable
        self.selection = selection


cdef class Passage:
    """`run()` it once. `receive` and `send` are those of ASGI.

    A subclass has, in the order of their calls: `arriving()`, which gives the body; `read(body)`, called when it or its
    beginning is there; `choose(now)`, which gives the first `frontend`; `ask()`, which gives the head of what is
    asked; `exchange(asked, body)`, the one with the frontend; `note(status)`, called where the status is notable or the
    frontend suspect, which may raise; `failed_there(error)`, which raises unless another attempt is to be made, and
    sets `frontend` for it; `failed(error)`, a coroutine that says what has become of the request; and `tell()`, called
    at the end where each is to be told.
    """

    __class_getitem__ = classmethod(GenericAlias)

    def __cinit__(self, scope not None, receive not None, send not None, Desk desk not None, CallerHead head not None,
                  str route not None, Histogram first_byte not None):
        self.scope = scope
        self.receive = receive
        self.send = send
        self.desk = desk
        self.head = head
        self.route = route
        self.first_byte = first_byte
        self.pool = ""
        self.end = WHOLE
        self.began_at = seconds()

    @property
    def secs(self) -> float:
        """Since it began."""
        return seconds() - self.began_at

    @property
    def said_done(self) -> bool:
        """Whether the last part of the answer so far is what ends a stream of events in OpenAI's API."""
        return self.last is not None and self.last.endswith(DONE)

    def body_came(self) -> None:
        """The body has come to its end: from now on only `receive` tells that the caller leaves."""
        self.desk.departures.watch(self)

    async def run(self):
        """Answers. Raises what `failed` does."""
        cdef Arriving body
        self.desk.in_flight += 1
        try:
            self.body = body = self.arriving()
            body.expect()
            while not body.begins(await self.receive()):
                pass
            if body.is_whole:
                self.desk.departures.watch(self)
            self.read(body)
            self.find()
            self.asked = self.ask()
            while not await self.attempt():
                self.is_second = True
        except BaseException as error:
            await self.failed(error)
        finally:
            self.over()

    async def attempt(self):
        """Asks `frontend`; False where another is to be asked."""
        cdef Guard guard = Guard.__new__(Guard, self.frontend)
        cdef Exchange exchange
        cdef Response response
        self.pool = self.frontend.cell.pool_id
        try:
            exchange = self.exchange(self.asked, self.body)
            response = await exchange.__aenter__()
            try:
                await self.answer(response)
            finally:
                uploading = exchange.leave()
                if uploading is not None:
                    await exchange.ended(uploading)
        except Exception as error:
            self.failed_there(error)
            return False
        finally:
            guard.release()
        return True

    async def answer(self, Response response):
        """Passes the answer on, part by part as it comes and as the caller takes it."""
        cdef list headers = self.begun(response)
        cdef bytes data = response.taken()
        if data is None and not is_event_stream(headers):
            # The server holds a head back until there is a part: of such an answer a failure before can still be told.
            data = await response.read()
        self.status = response.status
        await self.send({"type": "http.response.start", "status": self.status, "headers": headers})
        while True:
            if data is None:
                data = await response.read()
            self.sent += len(data)
            self.last = data
            if response.is_over():
                await self.send({"type": "http.response.body", "body": data, "more_body": False})
                return
            await self.send({"type": "http.response.body", "body": data, "more_body": True})
            data = response.taken()

    cdef list begun(self, Response response):
        """Takes note of an answer whose head has come; its headers, for the caller."""
        cdef Desk desk = self.desk
        count(desk.outcomes, (self.pool, REUSED if response.reused else CONNECTED))
        if response.status in desk.notable or self.frontend.suspect():
            self.note(response.status)
        self.first_byte.add(seconds() - self.began_at)
        self.body.let_go()
        return desk.sieve.passed(response.headers)

    cdef find(self):
        cdef double began_at = seconds()
        try:
            self.frontend = self.choose(began_at)
        finally:
            self.desk.selection.add((seconds() - began_at) * 1e3)

    cdef over(self):
        cdef Desk desk = self.desk
        desk.in_flight -= 1
        if self.body is not None:
            self.body.end()
        desk.departures.end(self)
        count(desk.requests, (self.route, self.pool, self.status or self.told))
        if desk.tells:
            self.tell()


cdef double seconds() noexcept:
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return now.tv_sec + now.tv_nsec * 1e-9


cdef count(dict counts, tuple labels):
    counts[labels] = counts.get(labels, 0) + 1


cdef bint is_event_stream(list headers) except *:
    cdef bytes name, value
    for name, value in headers:
        if name == CONTENT_TYPE:
            return value.startswith(EVENT_STREAM)
    return False
