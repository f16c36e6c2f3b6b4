"""Holds what is known of a pool and its frontends from request to request: cells, which outlive every catalog.

Counts requests in flight and outcomes. Which pool is picked is decided elsewhere, from these numbers.
"""

cimport cython
from libc.stdint cimport int64_t

cdef int64_t PROBATION = 8  # answers that win trust back: a pool that fails every eighth request or more has none


@cython.final
@cython.no_gc  # what it refers to refers to nothing that could lead back
cdef class Cell:
    """One pool, whatever catalog shows it: its requests in flight, and how its last requests went.

    `aside` and that of the frontends is written by the ejection; a picker passes over what is set aside.
    """

    def __init__(self, str pool_id not None):
        self.pool_id = pool_id

    def __repr__(self):
        return f"Cell({self.pool_id!r}, in_flight={self.in_flight})"

    def succeeded(self) -> None:
        """A request was answered by the pool."""
        if self.strikes:
            self.strikes -= 1

    def failed(self) -> None:
        """A request was not answered, or answered that the pool cannot."""
        self.strikes = PROBATION

    def rotate(self, tuple frontends not None):
        """The frontend whose turn it is, of `frontends` of this pool; one that is set aside only where all are."""
        if not frontends:
            raise ValueError("expected a pool with a frontend")
        return self.next_of(frontends)

    cdef Frontend next_of(self, tuple frontends):
        cdef Py_ssize_t count = len(frontends)
        cdef Py_ssize_t first = self.turns % count
        cdef Py_ssize_t passed
        cdef Frontend frontend
        self.turns += 1
        for passed in range(count):
            frontend = <Frontend?> frontends[(first + passed) % count]
            if not frontend.aside:
                self.turns += passed
                return frontend
        return <Frontend> frontends[first]


@cython.final
@cython.no_gc  # what it refers to refers to nothing that could lead back
cdef class Frontend:
    """One HTTP entry point of a pool."""

    def __init__(self, Cell cell not None, str url not None):
        self.cell = cell
        self.url = url

    def __repr__(self):
        return f"Frontend({self.cell.pool_id!r}, {self.url!r})"

    cdef bint suspect(self) noexcept:
        """Whether its answers are to be told to the ejection, good ones too, since it or its pool failed lately."""
        return self.has_failed or self.cell.strikes > 0

    def hold(self):
        """A Guard of one request: in flight from here until the guard is released."""
        return Guard.__new__(Guard, self)


@cython.final
@cython.no_gc  # what it refers to refers to nothing that could lead back
cdef class Guard:
    """One request in flight, as Frontend.hold gives it. Counts until it is released, left or forgotten: once."""

    def __cinit__(self, Frontend frontend not None):
        self.frontend = frontend
        self.held = True
        frontend.cell.in_flight += 1

    def __dealloc__(self):
        if self.held:
            self.frontend.cell.in_flight -= 1

    def __enter__(self):
        return self

    def __exit__(self, *exception) -> None:
        self.release()

    def release(self) -> None:
        """The request is over. A second call changes nothing."""
        if self.held:
            self.held = False
            self.frontend.cell.in_flight -= 1
