# cython: nonecheck=True
"""One request and its reply. How a body is sent bit by bit, and what a request was refused for, is the subclass's part.
"""

from types import GenericAlias

from gdsvc._line cimport Line
from gdsvc._request cimport RequestWriter


cdef class Response:
    """A reply whose head has come, on `line`; iterating gives its body as `read` does.

    `headers` have the bytes, order and case that were sent; so have `trailers`, there once the body has ended.
    """

    def __cinit__(self, Line line not None):
        self.line = line
        self.status = line.reply.status
        self.headers = line.reply.headers
        self.trailers = line.reply.trailers
        self.reused = line.served > 0

    @property
    def is_read(self) -> bool:
        """Whether the body was read to its end."""
        return self.is_over()

    cdef bint is_over(self) noexcept:
        return self.line is None or self.is_whole()

    cdef bint is_whole(self) noexcept:
        return self.line.reply.complete and not self.line.reply.held

    cpdef taken(self):
        """What has come of the body and was not taken yet, empty at its end; None where that is still to come.

        Raises what the exchange failed with, after what came of the body was taken.
        """
        cdef Line line = self.line
        if line is None:
            raise RuntimeError("the block of this response was left")
        if line.reply.held:
            data = line.reply.taken()
            line.resume()
            return data
        if line.reply.complete:
            return b""
        if line.failure is not None:
            raise line.failure
        return None

    async def read(self):
        """What has come of the body and was not read yet, as soon as there is any; empty at its end.

        Raises the failure where the body breaks off, after what came of it was read, and what the source of the
        request's body raised.
        """
        while True:
            data = self.taken()
            if data is not None:
                return data
            await self.line.changed()

    def __aiter__(self):
        return self

    def __anext__(self):
        return self.following()

    async def following(self):
        """The next part of the body. Raises StopAsyncIteration at its end."""
        data = await self.read()
        if not data:
            raise StopAsyncIteration
        return data


cdef class Sender:
    """Makes exchanges of `kind`, a subclass of Exchange, each with one of `stocks`, by origin.

    A subclass has `stock_of(origin)`, which makes the Stock of an origin that has none yet and puts it in place.
    """

    __class_getitem__ = classmethod(GenericAlias)

    def __init__(self, RequestWriter writer not None, kind, dict stocks not None):
        self.writer = writer
        self.kind = kind
        self.stocks = stocks

    def send(self, origin, head, body=b"", *, bint fresh=False):
        """One exchange, for `async with`. With `fresh` on a new connection, as the second attempt should be."""
        return self.kind(self, origin, head, body, fresh)

    cdef Stock stock(self, origin):
        stock = self.stocks.get(origin)
        return self.stock_of(origin) if stock is None else stock


cdef class Exchange:
    """Enter it once, as `async with`: it gives the Response. Leaving it before the body was read to its end closes the
    connection at once.

    With `fresh` it takes no connection that was used before.
    A subclass has `refuse()`, called where the request cannot be written; `send_body(line)`, called where a
    part of it is still to be sent; and `ended(upload)`, a coroutine that returns when the task that does so, `upload`,
    has ended.
    """

    __class_getitem__ = classmethod(GenericAlias)

    def __cinit__(self, Sender sender not None, origin, head, body, bint fresh):
        self.sender = sender
        self.origin = origin
        self.head = head
        self.body = body
        self.fresh = fresh

    async def __aenter__(self):
        """Sends, and waits for the head of the reply.

        Raises what the exchange failed with, what `refuse` raises and what the source of the body raised.
        """
        if not self.prepare():
            self.line = await self.stock.acquire(fresh=self.fresh)
        try:
            await self.ask()
            while not self.is_answered():
                await self.line.changed()
        except BaseException:
            await self.__aexit__(None, None, None)
            raise
        return self.response

    async def __aexit__(self, kind, error, trace):
        upload = self.leave()
        if upload is not None:
            await self.ended(upload)

    cdef bint prepare(self) except *:
        """Writes the request and takes a connection; says whether one was there at once."""
        cdef bint expects = self.head.expect_continue
        cdef bytes joined = self.sender.writer.joined(self.body, expects)
        cdef bytes method = self.head.method
        self.stock = self.sender.stock(self.origin)
        self.is_joined = bool(joined) or not self.body
        self.head_only = method == b"HEAD"
        self.message = self.sender.writer.message(self.head, method, self.stock.host, self.body, expects, joined)
        if self.message is None:
            self.refuse()
        elif not self.fresh:
            self.line = self.stock.reuse()
        return self.line is not None

    cdef ask(self):
        """Begins to send. A future that is done when something of the reply may have come."""
        cdef Line line = self.line
        future = line.changed()
        line.begin(self.message, self.head_only)
        self.message = None
        if not self.is_joined:
            self.send_body(line)
        self.body = None  # who holds it may let go of it while the reply is still coming
        return future

    cdef bint is_answered(self) except *:
        """Whether the head of the reply has come. Raises what the exchange failed with."""
        cdef Line line = self.line
        if line.reply.status:
            self.response = Response.__new__(Response, line)
            return True
        if line.failure is not None:
            raise line.failure
        return False

    cdef leave(self):
        """Ends the exchange: at once, but for an upload that is in the way, which is told to end and given back.

        Unless both bodies have come to their end, the connection is closed.
        """
        cdef Line line = self.line
        cdef Response response = self.response
        upload = self.upload
        if line is None:
            return None
        self.line = None
        is_sent = upload is None or (upload.done() and not upload.cancelled() and upload.result())
        if response is not None and response.is_whole() and is_sent and line.finish():
            self.stock.give_back(line)
        else:
            line.abort()
            self.stock.leave()
        if response is not None:
            response.line = None
        if upload is None or upload.done():
            return None
        upload.cancel()
        return upload
