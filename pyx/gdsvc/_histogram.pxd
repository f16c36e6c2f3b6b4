cdef class Histogram:
    cdef double *bounds
    cdef unsigned long long *counts  # one more than bounds: what is above them all
    cdef Py_ssize_t size
    cdef double sum

    cdef void add(self, double value) noexcept
