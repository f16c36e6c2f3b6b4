"""Decides which leases have run out: a FIFO per ttl under a binary heap of the FIFOs' heads.

With one ttl a renewal belongs at the end of its FIFO, so it costs O(1) and leaves no tombstone behind.
What a lease is held on, and what follows from its end, is the caller's.
"""

cimport cython
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.ref cimport Py_DECREF, Py_INCREF, PyObject
from libc.math cimport INFINITY, isfinite

cdef extern from "Python.h":
    ctypedef int (*visitproc)(PyObject*, void*) noexcept
    ctypedef int (*traverseproc)(PyObject*, visitproc, void*) noexcept
    ctypedef int (*inquiry)(PyObject*) noexcept
    ctypedef struct PyTypeObject:
        traverseproc tp_traverse
        inquiry tp_clear

cdef Py_ssize_t FEWEST_SLOTS = 8  # more ttls than most fleets have; below it the order never shrinks


cdef class LeaseEntry:
    """One lease and what it is held on; compiled modules subclass it for what they lease."""

    def __cinit__(self):
        self.deadline = INFINITY

    def __init__(self, item=None):
        self.item = item

    @property
    def linked(self) -> bool:
        """Whether a heap holds this entry."""
        return self.queue is not NULL


@cython.final
cdef class LeaseHeap:
    """Leases by deadline, in seconds of whatever clock the caller reads.

    It owns a reference to each entry it holds. One entry is in one heap at most.
    """

    def __cinit__(self):
        self.queues = {}

    def __dealloc__(self):
        self.release()
        PyMem_Free(self.order)

    def __len__(self) -> int:
        return self.size

    @property
    def next_deadline(self) -> float:
        """The earliest deadline in seconds; inf when empty."""
        return self.earliest()

    cpdef void renew(self, LeaseEntry entry, double now, double ttl) except *:
        """Make `entry.deadline` equal `now + ttl` (seconds), whether or not the entry is here already.

        ValueError for a `now` or `ttl` that is not finite, for a `ttl` of zero or less, and for an entry
        that another heap holds.
        """
        cdef double deadline = now + ttl
        cdef LeaseQueue* queue
        if entry is None or not (ttl > 0 and isfinite(deadline)):
            refuse(entry, now, ttl)
        queue = entry.queue
        if queue is NULL:
            queue = self.queue_for(ttl)
            Py_INCREF(entry)
            self.size += 1
        elif queue.owner is not <void*> self:
            raise ValueError("entry is in another heap")
        elif queue.ttl == ttl:
            unlink(<PyObject*> entry)  # not detach(): the queue is about to get it back
        else:
            queue = self.queue_for(ttl)  # before the entry leaves its queue, since this may raise
            self.detach(<PyObject*> entry)
        self.insert(<PyObject*> entry, queue, deadline)

    cpdef bint remove(self, LeaseEntry entry) except -1:
        """Take `entry` out; False where no heap holds it, ValueError where another heap does."""
        if entry is None:
            raise TypeError("entry must be a LeaseEntry, not None")
        if entry.queue is NULL:
            return False
        if entry.queue.owner is not <void*> self:
            raise ValueError("entry is in another heap")
        self.detach(<PyObject*> entry)
        self.size -= 1
        Py_DECREF(entry)
        return True

    cpdef list expire(self, double now, Py_ssize_t limit):
        """Take out at most `limit` entries whose deadline is `now` (seconds) or earlier, the earliest first.

        Entries of one ttl with the same deadline come in the order of their renewals.
        ValueError for a `now` that is not finite.
        """
        cdef list gone = []
        cdef PyObject* entry
        if not isfinite(now):
            raise ValueError(f"now must be finite, not {now}")
        while limit > 0 and self.earliest() <= now:
            entry = self.order[0].head
            gone.append(<object> entry)  # first, so that a failed append loses no entry
            self.detach(entry)
            self.size -= 1
            Py_DECREF(<object> entry)
            limit -= 1
        return gone

    cdef LeaseQueue* queue_for(self, double ttl) except NULL:
        """The queue of this ttl; a new one is empty and last in the order, for insert() to settle."""
        cdef LeaseQueue* queue
        cdef object address
        if self.depth and self.order[0].ttl == ttl:  # with one ttl, no dict is asked
            return self.order[0]
        cdef object key = ttl
        address = self.queues.get(key)
        if address is not None:
            return <LeaseQueue*> <size_t> address
        if self.depth == self.room:
            self.reserve(max(FEWEST_SLOTS, 2 * self.room))
        queue = <LeaseQueue*> PyMem_Malloc(sizeof(LeaseQueue))
        if queue is NULL:
            raise MemoryError
        try:
            self.queues[key] = <size_t> queue
        except MemoryError:
            PyMem_Free(queue)
            raise
        queue[0] = LeaseQueue(INFINITY, ttl, self.depth, <void*> self, NULL, NULL, <PyObject*> key)
        self.order[self.depth] = queue
        self.depth += 1
        return queue

    cdef int reserve(self, Py_ssize_t room) except -1:
        cdef LeaseQueue** order = <LeaseQueue**> PyMem_Realloc(self.order, room * sizeof(LeaseQueue*))
        if order is NULL:
            raise MemoryError
        self.order = order
        self.room = room
        return 0

    cdef void insert(self, PyObject* entry, LeaseQueue* queue, double deadline) noexcept:
        """Link an unlinked entry behind all that end no later. Walks only where `now` went back."""
        cdef PyObject* before = queue.tail
        while before is not NULL and (<LeaseEntry> before).deadline > deadline:
            before = (<LeaseEntry> before).prev
        cdef PyObject* after = queue.head if before is NULL else (<LeaseEntry> before).next
        (<LeaseEntry> entry).deadline = deadline
        (<LeaseEntry> entry).queue = queue
        join(queue, before, entry)
        join(queue, entry, after)
        self.settle(queue)

    cdef void detach(self, PyObject* entry) noexcept:
        """Take a linked entry out of its queue, and an empty queue out of the order. Keeps the reference."""
        cdef LeaseQueue* queue = (<LeaseEntry> entry).queue
        unlink(entry)
        (<LeaseEntry> entry).queue = NULL
        (<LeaseEntry> entry).deadline = INFINITY
        self.settle(queue)
        if queue.head is NULL:
            self.drop(queue)

    cdef void settle(self, LeaseQueue* queue) noexcept:
        """Move a queue whose head may have changed to where its deadline belongs in the order."""
        cdef double before = queue.deadline
        queue.deadline = INFINITY if queue.head is NULL else (<LeaseEntry> queue.head).deadline
        if queue.deadline < before:
            rise(self.order, queue)
        elif queue.deadline > before:
            sink(self.order, self.depth, queue)

    cdef void drop(self, LeaseQueue* queue) noexcept:
        """Forget an empty, settled queue."""
        cdef LeaseQueue* last
        self.depth -= 1
        last = self.order[self.depth]
        place(self.order, last, queue.slot)
        rise(self.order, last)  # never sinks: an empty queue's deadline is inf, so nothing below it is earlier
        del self.queues[<object> queue.key]
        PyMem_Free(queue)
        if self.room > FEWEST_SLOTS and self.depth <= self.room // 4:
            self.reserve(self.room // 2)

    cdef void release(self) noexcept:
        """Let go of every entry. Its end may run Python code that finds the heap consistent, only smaller."""
        cdef PyObject* entry
        while self.depth:
            entry = self.order[0].head
            self.detach(entry)
            self.size -= 1
            Py_DECREF(<object> entry)


cdef int refuse(LeaseEntry entry, double now, double ttl) except -1:
    if entry is None:
        raise TypeError("entry must be a LeaseEntry, not None")
    if not isfinite(now):
        raise ValueError(f"now must be finite, not {now}")
    if not (isfinite(ttl) and ttl > 0):
        raise ValueError(f"ttl must be finite and above zero, not {ttl}")
    raise ValueError(f"now + ttl must be finite, not {now} + {ttl}")


cdef inline void join(LeaseQueue* queue, PyObject* before, PyObject* after) noexcept:
    """Make two entries neighbours; NULL stands for the end of the queue."""
    if before is NULL:
        queue.head = after
    else:
        (<LeaseEntry> before).next = after
    if after is NULL:
        queue.tail = before
    else:
        (<LeaseEntry> after).prev = before


cdef inline void unlink(PyObject* entry) noexcept:
    join((<LeaseEntry> entry).queue, (<LeaseEntry> entry).prev, (<LeaseEntry> entry).next)
    (<LeaseEntry> entry).prev = NULL
    (<LeaseEntry> entry).next = NULL


cdef inline void place(LeaseQueue** order, LeaseQueue* queue, Py_ssize_t slot) noexcept:
    order[slot] = queue
    queue.slot = slot


cdef void rise(LeaseQueue** order, LeaseQueue* queue) noexcept:
    cdef Py_ssize_t slot = queue.slot
    cdef LeaseQueue* parent
    while slot > 0:
        parent = order[(slot - 1) // 2]
        if parent.deadline <= queue.deadline:
            break
        place(order, parent, slot)
        slot = (slot - 1) // 2
    place(order, queue, slot)


cdef void sink(LeaseQueue** order, Py_ssize_t depth, LeaseQueue* queue) noexcept:
    cdef Py_ssize_t slot = queue.slot
    cdef Py_ssize_t child = 2 * slot + 1
    while child < depth:
        if child + 1 < depth and order[child + 1].deadline < order[child].deadline:
            child += 1
        if order[child].deadline >= queue.deadline:
            break
        place(order, order[child], slot)
        slot = child
        child = 2 * slot + 1
    place(order, queue, slot)


# Cython's own tp_traverse knows object fields only. Without these two a cycle through a linked entry
# would never be collected. linetrace is off since the collector must not run Python code.
cdef traverseproc traverse_fields = (<PyTypeObject*> LeaseHeap).tp_traverse


@cython.linetrace(False)
cdef int traverse(PyObject* self, visitproc visit, void* arg) noexcept:
    cdef PyObject* entry
    cdef Py_ssize_t slot
    cdef int stop = traverse_fields(self, visit, arg)
    for slot in range((<LeaseHeap> self).depth):
        entry = (<LeaseHeap> self).order[slot].head
        while entry is not NULL and not stop:
            stop = visit(entry, arg)
            entry = (<LeaseEntry> entry).next
    return stop


cdef int clear(PyObject* self) noexcept:
    (<LeaseHeap> self).release()
    return 0


(<PyTypeObject*> LeaseHeap).tp_traverse = traverse
(<PyTypeObject*> LeaseHeap).tp_clear = clear
