"""The bytes of a list, in pieces that are joined later, perhaps in another thread."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy


@cython.final
cdef class ListParts:
    """The bytes of one list at one revision, in pieces; joining them needs no lock and may run in any thread."""

    def __init__(self):
        raise TypeError("made by PoolIndex.parts")

    def __dealloc__(self):
        free(self.starts)
        free(self.sizes)

    cdef int reserve(self, Py_ssize_t count) except -1:
        self.starts = <const char **> malloc(max(count, 1) * sizeof(char *))
        self.sizes = <Py_ssize_t *> malloc(max(count, 1) * sizeof(Py_ssize_t))
        if self.starts == NULL or self.sizes == NULL:
            raise MemoryError()
        self.kept = []
        return 0

    cdef int add(self, bytes source, Py_ssize_t at, Py_ssize_t size) except -1:
        """A piece of `source`; a comma comes between two pieces. There must be room for it."""
        self.kept.append(source)
        self.starts[self.count] = PyBytes_AS_STRING(source) + at
        self.sizes[self.count] = size
        self.size += size + (self.count > 0)
        self.count += 1
        return 0

    def join(self, bytes head not None, bytes tail not None) -> bytes:
        """`head`, the listings with commas between them, `tail`: one copy, made without the interpreter lock."""
        cdef Py_ssize_t position, head_size = PyBytes_GET_SIZE(head), tail_size = PyBytes_GET_SIZE(tail)
        cdef bytes joined = PyBytes_FromStringAndSize(NULL, head_size + self.size + tail_size)
        cdef char *out = PyBytes_AS_STRING(joined)
        cdef bytes before = self.joined
        cdef list kept = self.kept  # so that another call, which may end first, lets go of nothing
        memcpy(out, PyBytes_AS_STRING(head), head_size)
        out += head_size
        if before is not None:
            memcpy(out, PyBytes_AS_STRING(before) + self.head_size, self.size)
            out += self.size
        else:
            with nogil:  # a list of 100,000 pools is 50 MB: the loop runs on meanwhile
                for position in range(self.count):
                    if position:
                        out[0] = c','
                        out += 1
                    memcpy(out, self.starts[position], self.sizes[position])
                    out += self.sizes[position]
        memcpy(out, PyBytes_AS_STRING(tail), tail_size)
        if before is None:
            self.joined = joined
            self.head_size = head_size
            self.kept = None  # the list before this one, for example
        del kept
        return joined
