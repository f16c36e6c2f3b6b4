"""Writes requests: the head as it was given, the framing, and a small body behind them, in one piece.

Refuses what could be read as another request; which words that deserves is decided elsewhere.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcpy

cdef enum:
    UNSAID = -1  # no length is said, since there is no body
    CHUNKED = -2
    NEGATIVE = -3
    MOST_FRAMING = 96

cdef bytes LENGTH = b"Content-Length: "
cdef bytes CHUNKS = b"Transfer-Encoding: chunked\r\n"
cdef bytes END = b"\r\n"
cdef bytes EXPECT = b"Expect: 100-continue\r\n\r\n"


@cython.final
cdef class RequestWriter:
    """`ours` are names of headers, in lower case, that are not the caller's to set; requests of the methods `bodiless`
    say no length where they have no body. A body of up to `joined_bytes` goes out in one piece with its head.
    """

    def __init__(self, frozenset ours not None, frozenset bodiless not None, Py_ssize_t joined_bytes):
        self.ours = ours
        self.bodiless = bodiless
        self.joined_bytes = joined_bytes
        for name in ours:
            self.marks |= <unsigned long long> 1 << mark(name)

    def write(self, head, bytes host not None, body):
        """The bytes of a request; None where a part of it would be read as something else, or is one of `ours`.

        `head` has a `method`, a `target`, `headers` as (name, value) and `expect_continue`. `host` is what stands
        behind the target up to the end of the Host line. `body` is bytes, or has a `length`, which may be None.
        """
        cdef bint expects = head.expect_continue
        return self.message(head, head.method, host, body, expects, self.joined(body, expects))

    cdef bytes joined(self, body, bint expects):
        """What of `body` goes out with the head."""
        if expects or not isinstance(body, bytes) or len(<bytes> body) > self.joined_bytes:
            return b""
        return body

    cdef bytes message(self, head, bytes method, bytes host, body, bint expects, bytes joined):
        cdef bytes target = head.target
        cdef object fields = head.headers
        cdef Py_ssize_t length = self.length(body, method)
        cdef char[MOST_FRAMING] framing
        cdef char* end
        cdef char* at
        cdef Py_ssize_t size, room
        cdef bytes message
        if type(fields) is not list and type(fields) is not tuple:
            fields = list(fields)  # two passes follow
        size = self.size_of_fields(fields)
        if size < 0 or length == NEGATIVE or not is_method(method) or not is_target(target):
            return None
        end = put_framing(framing, length, expects)
        room = size
        size += len(method) + 1 + len(target) + len(host) + (end - framing) + len(joined)
        message = PyBytes_FromStringAndSize(NULL, size)
        at = put(PyBytes_AS_STRING(message), method)
        at[0] = c" "
        at = put(put(at + 1, target), host)
        at = put_fields(at, fields, room)
        if at is NULL:
            return None
        memcpy(at, framing, end - framing)
        put(at + (end - framing), joined)
        return message

    cdef Py_ssize_t length(self, body, bytes method) except? -4:
        if isinstance(body, bytes):
            return len(<bytes> body) if body or method not in self.bodiless else UNSAID
        length = body.length
        if length is None:
            return CHUNKED
        return length if length >= 0 else NEGATIVE

    cdef Py_ssize_t size_of_fields(self, fields) except -2:
        """Bytes that `fields` take; -1 where a name is one of `ours`."""
        cdef Py_ssize_t size = 0
        cdef bytes name, value
        for name, value in fields:
            if self.marks >> mark(name) & 1 and name.lower() in self.ours:
                return -1
            size += len(name) + len(value) + 4
        return size


cdef int mark(bytes name) noexcept:
    """A number below 64 by length and first letter of `name`."""
    return (PyBytes_GET_SIZE(name) * 7 + (PyBytes_AS_STRING(name)[0] | 0x20)) & 63


cdef char* put_framing(char* at, Py_ssize_t length, bint expects) noexcept:
    """The last lines of a head, MOST_FRAMING bytes at most."""
    cdef char[20] digits
    cdef int count = 0
    if length == CHUNKED:
        at = put(at, CHUNKS)
    elif length != UNSAID:
        at = put(at, LENGTH)
        while True:
            digits[count] = <char> (c"0" + length % 10)
            length //= 10
            count += 1
            if not length:
                break
        while count:
            count -= 1
            at[0] = digits[count]
            at += 1
        at = put(at, END)
    return put(at, EXPECT if expects and length != UNSAID else END)


cdef char* put(char* at, bytes part) noexcept:
    memcpy(at, PyBytes_AS_STRING(part), PyBytes_GET_SIZE(part))
    return at + PyBytes_GET_SIZE(part)


cdef char* put_fields(char* at, fields, Py_ssize_t room) except? NULL:
    """NULL where a name or a value has a line break or NUL, or where `fields` are not of the size that they had before.
    """
    cdef bytes name, value
    for name, value in fields:
        room -= len(name) + len(value) + 4
        if room < 0:
            return NULL
        at = put_checked(at, name)
        if at is NULL:
            return NULL
        at[0] = c":"
        at[1] = c" "
        at = put_checked(at + 2, value)
        if at is NULL:
            return NULL
        at[0] = c"\r"
        at[1] = c"\n"
        at += 2
    return at if room == 0 else NULL


cdef char* put_checked(char* at, bytes part) noexcept:
    """NULL where `part` has a line break or NUL."""
    cdef const char* source = PyBytes_AS_STRING(part)
    cdef char byte
    cdef Py_ssize_t index
    for index in range(PyBytes_GET_SIZE(part)):
        byte = source[index]
        if byte == c"\n" or byte == c"\r" or byte == 0:
            return NULL
        at[index] = byte
    return at + PyBytes_GET_SIZE(part)


cdef bint is_method(bytes method) noexcept:
    """Letters, one at least."""
    cdef const char* letters = PyBytes_AS_STRING(method)
    cdef Py_ssize_t index
    for index in range(PyBytes_GET_SIZE(method)):
        if not c"a" <= (letters[index] | 0x20) <= c"z":
            return False
    return PyBytes_GET_SIZE(method) > 0


cdef bint is_target(bytes target) noexcept:
    """Neither empty nor with a space, a line break or NUL in it."""
    cdef const char* source = PyBytes_AS_STRING(target)
    cdef Py_ssize_t index
    for index in range(PyBytes_GET_SIZE(target)):
        if source[index] == c" " or source[index] == c"\n" or source[index] == c"\r" or source[index] == 0:
            return False
    return PyBytes_GET_SIZE(target) > 0
