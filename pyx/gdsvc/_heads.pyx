"""Reads the heads that cross the frontend, each in one pass: what of a request counts here, and which fields go on.

Which names mean what is told by the caller. In Python this took a sixth of all that a request costs.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_GetItem
from cpython.ref cimport PyObject
from libc.string cimport memcpy

cdef frozenset NAME_NOTHING = frozenset((b"keep-alive", b"Keep-Alive", b"close"))  # what nearly everybody sends

cdef enum Kind:
    DROPPED
    CONNECTION
    HOST
    LENGTH
    CODING
    UPGRADE
    HOP
    CLAIM
    SESSION  # the first of them; those that follow have the next numbers

cdef dict OF_EVERY_REQUEST = {
    b"connection": CONNECTION,
    b"host": HOST,
    b"content-length": LENGTH,
    b"transfer-encoding": CODING,
    b"upgrade": UPGRADE,
}


@cython.final
cdef class Meanings:
    """What names in lower case mean in a request. The head's own, such as Host and Content-Length, need not be named.

    `dropped` never go on, `claims` only where the peer is trusted; `hop` is our own mark; `sessions` name a session,
    and the first of them that is there counts.
    """

    def __init__(self, dropped, claims, bytes hop not None, sessions):
        self.kinds = dict.fromkeys(dropped, DROPPED)
        self.kinds |= dict.fromkeys(claims, CLAIM)
        self.kinds |= OF_EVERY_REQUEST
        self.kinds[hop] = HOP
        for number, name in enumerate(sessions):
            self.kinds[name] = SESSION + number


@cython.final
cdef class CallerHead:
    """The head of a request. Names in `headers` are in lower case.

    `host`, `coding` and `upgrade` are the values of Host, Transfer-Encoding and Upgrade, a repeated one joined with
    commas (RFC 9110 section 5.3), None where there is none; `length` is what Content-Length says, -1 where it says
    nothing, or no number. `looped` says that the mark of a frontend is there. `session` is the value that names the
    session. `kept` are the fields that go on, in their order; with `trusted` its claims are among them.
    """

    @property
    def is_plain(self) -> bool:
        """Whether there is nothing in it that would need a closer look: one plain host, no coding, upgrade or mark."""
        return not self.looped and self.coding is None and self.upgrade is None and is_plain_host(self.host)

    def __init__(self, headers, Meanings meanings not None, bint trusted):
        cdef set named = None
        cdef int kind, session = SESSION + 64
        cdef bytes stated = None
        cdef bytes name, value
        cdef PyObject *found
        self.kept = []
        self.trusted = trusted
        for field in headers:
            name, value = <tuple?> field
            found = PyDict_GetItem(meanings.kinds, name)
            if found is NULL:
                self.kept.append(field)
                continue
            kind = <object> found
            if kind >= SESSION:
                self.kept.append(field)
                if value and kind < session:
                    session = kind
                    self.session = value
            elif kind == HOST:
                self.host = joined(self.host, value)
            elif kind == LENGTH:
                stated = joined(stated, value)
            elif kind == CONNECTION:
                if value not in NAME_NOTHING:
                    named = set() if named is None else named
                    named |= options_of(value)
            elif kind == CODING:
                self.coding = joined(self.coding, value)
            elif kind == UPGRADE:
                self.upgrade = joined(self.upgrade, value)
            elif kind == HOP:
                self.looped = True
            elif kind == CLAIM and trusted:
                self.kept.append(field)
        self.length = number_of(stated)
        if named is not None:
            self.kept = [field for field in self.kept if field[0] not in named]


@cython.final
cdef class Sieve:
    """Lets pass what is not one of `dropped`, names in lower case with `connection` among them, and not named by
    Connection; adds the field `mark`.
    """

    def __init__(self, frozenset dropped not None, tuple mark not None):
        self.dropped = dropped
        self.mark = mark

    def __call__(self, headers) -> list[tuple[bytes, bytes]]:
        """The fields in their order, names in lower case."""
        return self.passed(headers)

    cdef list passed(self, headers):
        cdef list kept = []
        cdef set named = None
        cdef bytes name, lowered
        for field in headers:
            name = field[0]
            lowered = in_lower_case(name)
            if lowered not in self.dropped:
                kept.append(field if lowered is name else (lowered, field[1]))
            elif lowered == b"connection" and field[1] not in NAME_NOTHING:
                named = set() if named is None else named
                named |= options_of(field[1])
        if named is not None:
            kept = [field for field in kept if field[0] not in named]
        kept.append(self.mark)
        return kept


cdef set options_of(bytes connection):
    """The names that a Connection field lists."""
    return {option.strip(b" \t").lower() for option in connection.split(b",")}


cdef bytes joined(bytes before, bytes value):
    return value if before is None else before + b", " + value


cdef bint is_plain_host(bytes host) noexcept:
    """A name or an IPv4 address, with or without a port."""
    cdef Py_ssize_t at = 0
    cdef const char *letters
    if not host:  # None, too
        return False
    letters = PyBytes_AS_STRING(host)
    while c"a" <= (letters[at] | 0x20) <= c"z" or is_digit(letters[at]) or letters[at] == c"." or letters[at] == c"-":
        at += 1
    if at and letters[at] == c":":
        at += 1
        while is_digit(letters[at]):
            at += 1
    return at > 0 and at == PyBytes_GET_SIZE(host)  # a NUL ends every bytes


cdef Py_ssize_t number_of(bytes digits):
    """-1 for what is no number; what is beyond any limit is cut."""
    cdef Py_ssize_t number = 0
    cdef Py_ssize_t index
    cdef const char *letters
    if not digits:  # None, too
        return -1
    letters = PyBytes_AS_STRING(digits)
    for index in range(PyBytes_GET_SIZE(digits)):
        if not is_digit(letters[index]):
            return -1
        if number < 100_000_000_000_000_000:
            number = number * 10 + (letters[index] - c"0")
    return number


cdef bint is_digit(char letter) noexcept:
    return c"0" <= letter <= c"9"


cdef bytes in_lower_case(bytes name):
    """`name` itself where it is in lower case already."""
    cdef Py_ssize_t at = 0, size = PyBytes_GET_SIZE(name)
    cdef const char *letters = PyBytes_AS_STRING(name)
    cdef bytes lowered
    cdef char *out
    while at < size and not c'A' <= letters[at] <= c'Z':
        at += 1
    if at == size:
        return name
    lowered = PyBytes_FromStringAndSize(NULL, size)  # a copy of one letter would be the one that all share
    out = PyBytes_AS_STRING(lowered)
    memcpy(out, letters, size)
    for at in range(at, size):
        if c'A' <= out[at] <= c'Z':
            out[at] |= 0x20
    return lowered
