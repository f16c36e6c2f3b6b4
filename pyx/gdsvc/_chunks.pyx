"""Takes the plain chunks of a body apart: a size in hexadecimal, the data, and the ends of their lines, nothing else.

A stream of events is hundreds of them, and a parser that calls back for each costs more than all the rest of an answer.
What is not as plain (the last chunk, extensions, mistakes in a size) is the parser's from there on.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcpy

cdef enum:
    MOST_DIGITS = 15  # of a size, which then stays below 2**60


@cython.final
cdef class Chunks:
    """`begin` where the first size should be, then `take` what comes until it `is_stopped`, or `is_broken`."""

    cdef void begin(self) noexcept:
        self.place = Place(DIGIT, 0, 0, 0, 0)
        self.line = b""

    cdef bytes take(self, bytes data, Py_ssize_t at):
        """What the chunks in `data` from `at` on hold, in one piece."""
        cdef const char *letters = PyBytes_AS_STRING(data)
        cdef Py_ssize_t end = PyBytes_GET_SIZE(data)
        cdef Place before
        cdef Py_ssize_t size
        cdef bytes held
        self.place.at = self.place.line_at = at
        before = self.place
        size = look(&self.place, letters, end, NULL)
        held = PyBytes_FromStringAndSize(NULL, size)
        if size:
            look(&before, letters, end, PyBytes_AS_STRING(held))
        if self.place.line_at > at:
            self.line = b""
        if self.place.next == DIGIT or self.place.next == SIZE_END:
            self.line += data[self.place.line_at:]
        return held

    cdef bint is_stopped(self) noexcept:
        return self.place.next == STOPPED

    cdef bint is_broken(self) noexcept:
        return self.place.next == BROKEN

    cdef bytes rest(self, bytes data):
        """Where it is stopped: the line with the size that is not plain, and what follows it in `data`."""
        return self.line + data[self.place.line_at:]


cdef Py_ssize_t look(Place *place, const char *letters, Py_ssize_t end, char *out) noexcept:
    """Bytes of data from `place` to `end`, or to where it cannot go on; copies them to `out` unless that is NULL."""
    cdef Py_ssize_t size = 0, part
    cdef int digit
    cdef char letter
    while place.at < end:
        letter = letters[place.at]
        if place.next == DATA:
            part = min(place.left, end - place.at)
            if out is not NULL:
                memcpy(out + size, letters + place.at, part)
            size += part
            place.at += part
            place.left -= part
            if not place.left:
                place.next = DATA_CR
            continue
        if place.next == DIGIT:
            digit = value_of(letter)
            if digit >= 0 and (place.digits or digit) and place.digits < MOST_DIGITS:
                place.left = place.left << 4 | digit
                place.digits += 1
            elif letter == c"\r" and place.digits:
                place.next = SIZE_END
            else:
                place.next = STOPPED
                break
        elif place.next == SIZE_END:
            if letter != c"\n":
                place.next = STOPPED
                break
            place.next = DATA
        elif place.next == DATA_CR and letter == c"\r":
            place.next = DATA_END
        elif place.next == DATA_END and letter == c"\n":
            place.next = DIGIT
            place.digits = 0
            place.line_at = place.at + 1
        else:
            place.next = BROKEN
            break
        place.at += 1
    return size


cdef int value_of(char digit) noexcept:
    """-1 where it is none of a hexadecimal number."""
    if c"0" <= digit <= c"9":
        return digit - c"0"
    if c"a" <= (digit | 0x20) <= c"f":
        return (digit | 0x20) - c"a" + 10
    return -1
