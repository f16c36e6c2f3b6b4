cdef class RequestWriter:
    cdef frozenset ours
    cdef frozenset bodiless
    cdef unsigned long long marks  # of `ours`, as bits: most names need no other look
    cdef Py_ssize_t joined_bytes

    cdef bytes joined(self, body, bint expects)
    cdef bytes message(self, head, bytes method, bytes host, body, bint expects, bytes joined)
    cdef Py_ssize_t length(self, body, bytes method) except? -4
    cdef Py_ssize_t size_of_fields(self, fields) except -2
