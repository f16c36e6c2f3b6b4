"""Request bodies part by part: how much of one has come, whether that is all, and what is held of it and of all.

Who waits for more, and how what is refused is said, is the subclasses' part.
"""

cdef str DISCONNECT = "http.disconnect"


cdef class Bounds:
    """What holds for all bodies, in bytes: `limit` for one, `budget` for what is held of all; of one `most_held` are.

    `waiting` are those of which a part is waited for.
    """

    def __init__(self, Py_ssize_t limit, Py_ssize_t most_held, Py_ssize_t budget):
        self.limit = limit
        self.most_held = most_held
        self.budget = budget
        self.waiting = set()


cdef class Arriving:
    """A body of `length` bytes, -1 where that is not known, for `owner`; `close()` it in any case.

    A subclass has `too_large()`, `too_much()` and `ended_early()`, which raise: for a body beyond the limit, for one
    for which there is no room among all, and where the caller has left. `owner.body_came()` is called where its last
    part was not one that is held.
    """

    def __cinit__(self, Py_ssize_t length, receive not None, Bounds bounds not None, owner):
        self.length = length
        self.receive = receive
        self.bounds = bounds
        self.owner = owner
        self.held = b""

    @property
    def is_in_hand(self) -> bool:
        """Whether all of it can be sent once more."""
        return self.is_whole and bool(self.held)

    def waits_since(self, double now) -> float:
        """Since when a part is waited for, as far as this has seen: the `now` of the first look at it."""
        if not self.since:
            self.since = now
        return self.since

    def wait(self) -> None:
        """A part is waited for from now on."""
        self.expect()

    def take(self, dict message not None) -> bytes:
        """The part that has come, which is not held."""
        cdef bytes part
        self.bounds.waiting.discard(self)
        part = self.taken(message)
        if self.is_whole and self.owner is not None:
            self.owner.body_came()
        return part

    def release(self) -> None:
        """Nothing of it is held any more."""
        self.drop()

    def close(self) -> None:
        """The request has come to its end."""
        self.end()

    cdef expect(self):
        self.since = 0.0
        self.bounds.waiting.add(self)

    cdef bint begins(self, dict message) except *:
        """Takes a part that is held; says whether the body is whole or enough of it is there."""
        cdef bytes part = self.taken(message)
        cdef Bounds bounds = self.bounds
        if bounds.held + len(part) > bounds.budget:
            self.too_much()
        bounds.held += len(part)
        self.booked += len(part)
        if self.parts is not None:
            self.parts += part
        elif self.held:
            self.parts = bytearray(self.held)  # one buffer, since many small parts take twenty times their size
            self.parts += part
        else:
            self.held = part
        if not self.is_whole and self.size < bounds.most_held:
            return False
        if self.parts is not None:
            self.held = bytes(self.parts)
            self.parts = None
        bounds.waiting.discard(self)
        return True

    cdef drop(self):
        self.held = b""
        self.parts = None
        self.bounds.held -= self.booked
        self.booked = 0

    cdef let_go(self):
        """It will not be sent again."""
        if self.is_whole and self.booked:
            self.drop()

    cdef end(self):
        self.drop()
        self.bounds.waiting.discard(self)  # a last part for which there is no room is waited for as well
        self.owner = None  # or its request would be garbage of a cycle

    cdef bytes taken(self, dict message):
        cdef bytes part
        if message["type"] == DISCONNECT:
            self.ended_early()
        part = message.get("body", b"")
        self.size += len(part)
        self.since = 0.0
        if self.size > self.bounds.limit:
            self.too_large()
        if self.size == self.length or not message.get("more_body", False):
            self.is_whole = True  # granian sends an empty part behind a body of stated length
        return part
