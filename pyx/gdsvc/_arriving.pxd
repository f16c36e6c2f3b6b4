cdef class Bounds:
    cdef readonly Py_ssize_t limit
    cdef readonly Py_ssize_t most_held
    cdef readonly Py_ssize_t budget
    cdef readonly Py_ssize_t held
    cdef readonly set waiting


cdef class Arriving:
    cdef readonly Py_ssize_t length
    cdef readonly bytes held
    cdef readonly bint is_whole
    cdef readonly object receive
    cdef readonly Bounds bounds
    cdef object owner
    cdef Py_ssize_t size  # of what has come
    cdef Py_ssize_t booked  # of it, in Bounds.held
    cdef double since  # seconds; 0.0 where nobody has looked yet
    cdef bytearray parts  # of what is held, while there are several

    cdef expect(self)
    cdef bint begins(self, dict message) except *
    cdef drop(self)
    cdef let_go(self)
    cdef end(self)
    cdef bytes taken(self, dict message)
