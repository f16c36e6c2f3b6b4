"""Quick answers about names and URLs, and the bytes that identify a pool; run for every new or changed registration.

A quick check says yes only to what is plain ASCII and surely right. What it does not say yes to is not thereby wrong:
gdsvc.model, whose rules these are, then looks closely.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcpy

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL
    long PyLong_AsLongAndOverflow(object number, int *overflow) except? -1

cdef enum:
    MAX_NAME_BYTES = 253


cdef bint _plain_name(str text) except -1:
    cdef Py_ssize_t size, position
    cdef const unsigned char *name = <const unsigned char *> PyUnicode_AsUTF8AndSize(text, &size)
    if not 0 < size <= MAX_NAME_BYTES or name[0] == c' ' or name[size - 1] == c' ':
        return False
    for position in range(size):
        if not 0x20 <= name[position] < 0x7f:
            return False
    return True


def plain_name(str text not None) -> bool:
    """Whether `text` is surely a name."""
    return _plain_name(text)


cdef inline bint _is_digit(unsigned char byte) noexcept nogil:
    return c'0' <= byte <= c'9'


cdef inline bint _is_letter(unsigned char byte) noexcept nogil:
    return c'a' <= byte | 0x20 <= c'z'


cdef bint _plain_base_url(const unsigned char *url, Py_ssize_t size) noexcept nogil:
    """`http://` or `https://`, an IPv4 address or a name that does not begin with a digit, perhaps `:port`."""
    cdef Py_ssize_t at
    cdef int value = 0, digits = 0, dots = 0
    if size < 8 or url[0] != c'h' or url[1] != c't' or url[2] != c't' or url[3] != c'p':
        return False
    at = 5 if url[4] == c's' else 4
    if size - at < 4 or url[at] != c':' or url[at + 1] != c'/' or url[at + 2] != c'/':
        return False
    at += 3
    if _is_letter(url[at]):
        while at < size and (_is_letter(url[at]) or _is_digit(url[at]) or url[at] == c'-' or url[at] == c'.'):
            at += 1
    else:
        while at < size and (_is_digit(url[at]) or url[at] == c'.'):
            if url[at] == c'.':
                if digits == 0 or dots == 3:
                    return False
                dots += 1
                value = digits = 0
            else:
                if digits and value == 0:
                    return False
                value = 10 * value + url[at] - c'0'
                digits += 1
                if value > 255:
                    return False
            at += 1
        if dots != 3 or digits == 0:
            return False
    if at == size:
        return True
    if url[at] != c':' or not 1 <= size - at - 1 <= 5:
        return False
    value = 0
    for at in range(at + 1, size):
        if not _is_digit(url[at]):
            return False
        value = 10 * value + url[at] - c'0'
    return 1 <= value <= 65535


def plain_base_url(str text not None) -> bool:
    """Whether `text` is surely a bare base URL."""
    cdef Py_ssize_t size
    cdef const char *url = PyUnicode_AsUTF8AndSize(text, &size)
    return _plain_base_url(<const unsigned char *> url, size)


cdef bint _plain_base_urls(tuple urls) except -1:
    cdef Py_ssize_t size
    cdef const char *url
    for text in urls:
        url = PyUnicode_AsUTF8AndSize(text, &size)
        if not _plain_base_url(<const unsigned char *> url, size):
            return False
    return True


def check_key(key) -> None:
    """`__post_init__` of PoolKey: looks closely only where a name is not plain."""
    if not (_plain_name(key.site_id) and _plain_name(key.namespace) and _plain_name(key.dgd_name)):
        key.look_closely()


def check_location(location) -> None:
    """`__post_init__` of PoolLocation: looks closely only where the region is not plain."""
    if not _plain_name(location.region):
        location.look_closely()


def check_capacity(capacity) -> None:
    """`__post_init__` of PoolCapacity: looks closely only where a count is not surely in range."""
    if not (
        _plain_count(capacity.max_concurrency)
        and _plain_count(capacity.live_workers)
        and _plain_count(capacity.kv_capacity_blocks)
        and _plain_count(capacity.expected_ranks)
        and _plain_count(capacity.observed_ranks)
    ):
        capacity.look_closely()


def check_registration(registration) -> None:
    """`__post_init__` of PoolRegistration: looks closely only where a frontend is not plain."""
    if registration.frontends and not _plain_base_urls(registration.frontends):
        registration.look_closely()


cdef bint _plain_count(object count) except -1:
    cdef int overflow = 0
    return count is None or (PyLong_AsLongAndOverflow(count, &overflow) >= 0 and not overflow)


def sort_key(key) -> bytes:
    """The names of a PoolKey in UTF-8 with NUL between them: sorts as the key does, since no name holds NUL."""
    cdef const char *names[3]
    cdef Py_ssize_t sizes[3]
    cdef object site_id = key.site_id, namespace = key.namespace, dgd_name = key.dgd_name
    names[0] = PyUnicode_AsUTF8AndSize(site_id, &sizes[0])
    names[1] = PyUnicode_AsUTF8AndSize(namespace, &sizes[1])
    names[2] = PyUnicode_AsUTF8AndSize(dgd_name, &sizes[2])
    cdef bytes joined = PyBytes_FromStringAndSize(NULL, sizes[0] + sizes[1] + sizes[2] + 2)
    cdef char *out = PyBytes_AS_STRING(joined)
    memcpy(out, names[0], sizes[0])
    out[sizes[0]] = 0
    out += sizes[0] + 1
    memcpy(out, names[1], sizes[1])
    out[sizes[1]] = 0
    out += sizes[1] + 1
    memcpy(out, names[2], sizes[2])
    return joined


def id_material(key) -> bytes:
    """What the id of a pool is derived from: each name of its key in UTF-8 behind its length as 8 big-endian bytes."""
    cdef const char *names[3]
    cdef Py_ssize_t sizes[3]
    cdef int position, byte
    cdef object site_id = key.site_id, namespace = key.namespace, dgd_name = key.dgd_name
    names[0] = PyUnicode_AsUTF8AndSize(site_id, &sizes[0])
    names[1] = PyUnicode_AsUTF8AndSize(namespace, &sizes[1])
    names[2] = PyUnicode_AsUTF8AndSize(dgd_name, &sizes[2])
    cdef bytes material = PyBytes_FromStringAndSize(NULL, sizes[0] + sizes[1] + sizes[2] + 24)
    cdef char *out = PyBytes_AS_STRING(material)
    for position in range(3):
        for byte in range(8):
            out[byte] = <char> ((sizes[position] >> (8 * (7 - byte))) & 0xff)
        memcpy(out + 8, names[position], sizes[position])
        out += 8 + sizes[position]
    return material


def exact(bytes encoded not None) -> bytes:
    """A copy that takes no more memory than its bytes: msgspec leaves up to a third of room behind what it encodes."""
    return PyBytes_FromStringAndSize(PyBytes_AS_STRING(encoded), PyBytes_GET_SIZE(encoded))
