"""Counts requests and their durations in C integers; a scrape reads them, a request costs two additions."""

cimport cython
from libc.stdlib cimport calloc, free

METHODS = ("GET", "HEAD", "POST", "DELETE", "PUT", "PATCH", "OPTIONS", "other")
STATUSES = (200, 204, 304, 400, 404, 405, 408, 409, 413, 415, 422, 429, 500, 501, 503)
BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)

cdef enum:
    N_METHODS = 8
    N_STATUSES = 16  # the last one is for every other status
    N_BOUNDS = 15

cdef double[N_BOUNDS] _bounds
cdef int _position
for _position in range(N_BOUNDS):
    _bounds[_position] = BOUNDS[_position]

_METHOD_OF = {name: position for position, name in enumerate(METHODS)}
_STATUS_OF = {status: position for position, status in enumerate(STATUSES)}


@cython.final
cdef class RequestMeter:
    """Counts by route, method and status, and a histogram of durations by route. Labels never take a caller's text.

    `routes` are the label values of the routes, which `record` is told by position.
    """

    cdef readonly tuple routes
    cdef unsigned long long *_counts  # [route][method][status]
    cdef unsigned long long *_buckets  # [route][bound], the last one for what is above all bounds
    cdef double *_sums  # [route], seconds

    def __cinit__(self, routes):
        self.routes = tuple(routes)
        cdef size_t count = len(self.routes)
        self._counts = <unsigned long long *> calloc(count * N_METHODS * N_STATUSES, sizeof(unsigned long long))
        self._buckets = <unsigned long long *> calloc(count * (N_BOUNDS + 1), sizeof(unsigned long long))
        self._sums = <double *> calloc(count, sizeof(double))
        if self._counts == NULL or self._buckets == NULL or self._sums == NULL:
            raise MemoryError()

    def __dealloc__(self):
        free(self._counts)
        free(self._buckets)
        free(self._sums)

    def record(self, Py_ssize_t route, str method not None, int status, double seconds) -> None:
        """One request on `routes[route]`, answered with `status` after `seconds`."""
        cdef Py_ssize_t method_position = _METHOD_OF.get(method, N_METHODS - 1)
        cdef Py_ssize_t status_position = _STATUS_OF.get(status, N_STATUSES - 1)
        cdef int bound = 0
        if not 0 <= route < len(self.routes):
            raise IndexError("route")
        self._counts[(route * N_METHODS + method_position) * N_STATUSES + status_position] += 1
        while bound < N_BOUNDS and seconds > _bounds[bound]:
            bound += 1
        self._buckets[route * (N_BOUNDS + 1) + bound] += 1
        self._sums[route] += seconds

    def counts(self) -> list[tuple[str, str, str, int]]:
        """(route, method, status, requests) of what has been seen; `other` stands for unlisted statuses."""
        cdef Py_ssize_t route, method, status
        cdef unsigned long long count
        cdef list seen = []
        for route in range(len(self.routes)):
            for method in range(N_METHODS):
                for status in range(N_STATUSES):
                    count = self._counts[(route * N_METHODS + method) * N_STATUSES + status]
                    if count:
                        name = str(STATUSES[status]) if status < N_STATUSES - 1 else "other"
                        seen.append((self.routes[route], METHODS[method], name, count))
        return seen

    def durations(self) -> list[tuple[str, list[int], float]]:
        """(route, requests up to each of BOUNDS and in all, seconds in all) of the routes that have been seen."""
        cdef Py_ssize_t route, bound
        cdef unsigned long long total
        cdef list seen = []
        for route in range(len(self.routes)):
            total = 0
            cumulative = []
            for bound in range(N_BOUNDS + 1):
                total += self._buckets[route * (N_BOUNDS + 1) + bound]
                cumulative.append(total)
            if total:
                seen.append((self.routes[route], cumulative, self._sums[route]))
        return seen
