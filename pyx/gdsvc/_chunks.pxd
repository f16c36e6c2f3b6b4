cdef enum Next:
    DIGIT
    SIZE_END  # the line feed behind a size
    DATA
    DATA_CR
    DATA_END  # the line feed behind data
    STOPPED  # a size is not plain
    BROKEN  # a chunk does not end where its size says


cdef struct Place:
    Next next
    Py_ssize_t left  # bytes of the chunk: of its size, as far as that has come, or of what is missing of its data
    int digits  # of the size
    Py_ssize_t at  # in the bytes in hand
    Py_ssize_t line_at  # where the line of a size begins in them


cdef class Chunks:
    cdef Place place
    cdef bytes line

    cdef void begin(self) noexcept
    cdef bytes take(self, bytes data, Py_ssize_t at)
    cdef bint is_stopped(self) noexcept
    cdef bint is_broken(self) noexcept
    cdef bytes rest(self, bytes data)
