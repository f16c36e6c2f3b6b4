from gdsvc._chunks cimport Chunks


cdef class ReplyReader:
    cdef object parser
    cdef readonly object malformed
    cdef list parts
    cdef Py_ssize_t most_head_bytes
    cdef Py_ssize_t trailers_size
    cdef Py_ssize_t unproductive  # bytes since the body moved, or since the beginning
    cdef int codings  # Transfer-Encoding headers
    cdef bint is_chunked  # the last of them says so
    cdef bint is_plain  # its body has been plain chunks so far, of which the parser knows nothing
    cdef Chunks chunks
    cdef bint head_only
    cdef bint parser_is_spent  # it waits for a body that a HEAD does not have
    cdef readonly int status
    cdef readonly list headers
    cdef readonly list trailers
    cdef readonly Py_ssize_t held
    cdef readonly bint begun
    cdef readonly bint continued
    cdef readonly bint complete
    cdef public bint keep_alive

    cdef begin_anew(self, bint head_only)
    cpdef feed(self, bytes data)
    cdef bytes taken(self)
    cdef parse(self, bytes data)
    cdef begin_chunks(self)
    cdef go_on(self, bytes data, Py_ssize_t at)
    cdef take_chunks(self, bytes data, Py_ssize_t at)
    cdef stop(self, error)
    cdef interim(self, int status)
    cdef bint is_framed(self) except *
    cdef Py_ssize_t size_of_headers(self) except -1
