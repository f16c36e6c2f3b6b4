cdef class ListParts:
    cdef list kept  # what the pieces point into
    cdef const char **starts
    cdef Py_ssize_t *sizes
    cdef Py_ssize_t count
    cdef bytes joined  # once it has been, with its head and tail
    cdef Py_ssize_t head_size
    cdef readonly Py_ssize_t size  # bytes of the list without head and tail
    cdef readonly object revision

    cdef int reserve(self, Py_ssize_t count) except -1
    cdef int add(self, bytes source, Py_ssize_t at, Py_ssize_t size) except -1
