from cpython.ref cimport PyObject
from libc.math cimport INFINITY


cdef struct LeaseQueue:  # the entries of one ttl, in the order of their deadlines
    double deadline  # of its head; inf while it is empty
    double ttl  # seconds
    Py_ssize_t slot  # its place in LeaseHeap.order
    void* owner  # the LeaseHeap
    PyObject* head  # LeaseEntry, earliest deadline
    PyObject* tail  # LeaseEntry, latest deadline
    PyObject* key  # the ttl, as the float that LeaseHeap.queues owns: dropping a queue allocates nothing


cdef class LeaseEntry:
    cdef readonly object item
    cdef readonly double deadline  # seconds on the caller's clock; inf when not in a heap
    cdef LeaseQueue* queue  # NULL when not in a heap
    cdef PyObject* prev  # LeaseEntry, the next earlier one in the queue
    cdef PyObject* next  # LeaseEntry, the next later one


cdef class LeaseHeap:
    cdef LeaseQueue** order  # binary min-heap by LeaseQueue.deadline
    cdef Py_ssize_t depth  # queues in order
    cdef Py_ssize_t room  # slots allocated for order
    cdef Py_ssize_t size  # entries in all queues
    cdef dict queues  # ttl -> address of its LeaseQueue

    cpdef void renew(self, LeaseEntry entry, double now, double ttl) except *
    cpdef bint remove(self, LeaseEntry entry) except -1
    cpdef list expire(self, double now, Py_ssize_t limit)

    cdef inline double earliest(self) noexcept nogil:
        """The earliest deadline in seconds; inf when empty."""
        return self.order[0].deadline if self.depth else INFINITY

    cdef LeaseQueue* queue_for(self, double ttl) except NULL
    cdef int reserve(self, Py_ssize_t room) except -1
    cdef void insert(self, PyObject* entry, LeaseQueue* queue, double deadline) noexcept
    cdef void detach(self, PyObject* entry) noexcept
    cdef void settle(self, LeaseQueue* queue) noexcept
    cdef void drop(self, LeaseQueue* queue) noexcept
    cdef void release(self) noexcept
