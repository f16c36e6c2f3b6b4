"""A histogram of durations in C integers: an observation costs a few comparisons and two additions."""

cimport cython
from libc.stdlib cimport calloc, free


@cython.final
cdef class Histogram:
    """Counts observations by the first of `bounds`, which ascend, that is not below them."""

    def __cinit__(self, bounds):
        cdef Py_ssize_t at
        cdef tuple given = tuple(bounds)
        self.size = len(given)
        self.bounds = <double *> calloc(self.size + 1, sizeof(double))
        self.counts = <unsigned long long *> calloc(self.size + 1, sizeof(unsigned long long))
        if self.bounds is NULL or self.counts is NULL:
            raise MemoryError
        for at in range(self.size):
            self.bounds[at] = given[at]

    def __dealloc__(self):
        free(self.bounds)
        free(self.counts)

    def observe(self, double value) -> None:
        """Counts one."""
        self.add(value)

    cdef void add(self, double value) noexcept:
        cdef Py_ssize_t at = 0
        while at < self.size and value > self.bounds[at]:
            at += 1
        self.counts[at] += 1
        self.sum += value

    def cumulative(self) -> tuple[list[tuple[str, float]], float]:
        """(bound, observations up to it) in order, and the sum of all observations; made in one step."""
        cdef Py_ssize_t at
        cdef unsigned long long total = 0
        cdef list buckets = []
        for at in range(self.size + 1):
            total += self.counts[at]
            buckets.append((f"{self.bounds[at]:.10g}" if at < self.size else "+Inf", <double> total))
        return buckets, self.sum
