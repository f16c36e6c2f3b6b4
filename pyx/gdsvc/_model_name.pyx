"""Finds the member `model` of a JSON object in its bytes, all of them or only the beginning, without building the rest.

Refuses what msgspec refuses of a whole body, and like it looks at strings that it passes over for their quotes,
escapes and control characters alone. Whether what was found will do as a name is decided elsewhere.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport uint64_t
from libc.string cimport memcmp, memcpy

cdef enum:
    MOST_LEVELS = 1024  # of nesting; Python's own parser and those of the pools give up before that

cdef enum Next:
    KEY_OR_END
    KEY
    VALUE_OR_END
    VALUE
    COMMA_OR_END

cdef uint64_t ONES = 0x0101010101010101
cdef uint64_t HIGHS = 0x8080808080808080

cdef struct Scan:
    const unsigned char *at
    const unsigned char *end
    const char *expected  # at `at`, where something else stands; NULL while all is well, and where the bytes end
    const unsigned char *text  # the string that was read last, without its quotes
    const unsigned char *text_end
    bint escaped  # it holds escapes
    bint of_model  # the value that comes next is that of `model`
    Next next
    int depth
    unsigned char closing[MOST_LEVELS]  # by depth, what ends the object or the list


def model_in(bytes body not None, bint whole) -> str | None:
    """The value of the last member `model` of the object in `body`; None where there is none.

    Without `whole` the bytes may end anywhere, and what is found before counts. Raises ValueError for what is no JSON
    object in UTF-8 (the message says what was expected, at which byte from 0 on), TypeError where a `model` is no
    string.
    """
    cdef Scan scan
    cdef const unsigned char *start = <const unsigned char *> PyBytes_AS_STRING(body)
    cdef str model = None
    cdef bint begun
    scan.at = start
    scan.end = start + PyBytes_GET_SIZE(body)
    scan.expected = NULL
    scan.of_model = False
    scan.depth = 0
    begun = _begin(&scan)
    if begun:
        while scan.depth and _space(&scan):
            if not scan.of_model:
                if not _step(&scan):
                    break
            elif scan.at[0] != c'"':
                raise TypeError("expected a string")
            elif _value(&scan):
                scan.of_model = False
                model = _text(&scan)
            else:
                break
        if scan.depth == 0 and _space(&scan):
            scan.expected = "nothing more"
    if scan.expected == NULL and whole and (scan.depth or not begun):
        scan.expected = "more, but the bytes end"
    if scan.expected != NULL:
        raise ValueError(f"expected {scan.expected.decode()} (byte {scan.at - start})")
    return model


# ------------------------------------------------------------------------------------------------- structure
# Each of these moves `at` behind what it reads, and says whether it could: False where something else was expected, and
# where the bytes ended.


cdef inline bint _not(Scan *scan, const char *expected) noexcept:
    scan.expected = expected
    return False


cdef inline bint _space(Scan *scan) noexcept:
    """Skips white space; whether anything follows it."""
    cdef const unsigned char *at = scan.at  # in a register, as scan.at cannot be
    while at < scan.end and (at[0] == c' ' or at[0] == c'\n' or at[0] == c'\r' or at[0] == c'\t'):
        at += 1
    scan.at = at
    return at < scan.end


cdef bint _begin(Scan *scan) noexcept:
    if not _space(scan):
        return False
    return _open(scan) if scan.at[0] == c'{' else _not(scan, "an object")


cdef inline bint _step(Scan *scan) noexcept:
    if scan.next == COMMA_OR_END:
        return _comma(scan)
    if scan.next == KEY or scan.next == KEY_OR_END:
        return _key(scan)
    return _value(scan)


cdef bint _open(Scan *scan) noexcept:
    if scan.depth == MOST_LEVELS:
        return _not(scan, "at most 1024 levels")
    scan.next = KEY_OR_END if scan.at[0] == c'{' else VALUE_OR_END
    scan.closing[scan.depth] = scan.at[0] + 2  # in ASCII } follows { by two, and so does ] [
    scan.depth += 1
    scan.at += 1
    return True


cdef bint _close(Scan *scan) noexcept:
    scan.depth -= 1
    scan.next = COMMA_OR_END
    scan.at += 1
    return True


cdef bint _comma(Scan *scan) noexcept:
    cdef unsigned char closing = scan.closing[scan.depth - 1]
    if scan.at[0] == closing:
        return _close(scan)
    if scan.at[0] != c',':
        return _not(scan, "a comma or }" if closing == c'}' else "a comma or ]")
    scan.next = KEY if closing == c'}' else VALUE
    scan.at += 1
    return True


cdef bint _key(Scan *scan) noexcept:
    if scan.at[0] == c'}' and scan.next == KEY_OR_END:
        return _close(scan)
    if scan.at[0] != c'"':
        return _not(scan, "a key in quotes" if scan.next == KEY else "a key in quotes or }")
    if not (_string(scan) and _space(scan)):
        return False
    if scan.at[0] != c':':
        return _not(scan, "a colon")
    scan.at += 1
    scan.of_model = scan.depth == 1 and _is_model(scan.text, scan.text_end)
    scan.next = VALUE
    return True


cdef bint _value(Scan *scan) noexcept:
    cdef unsigned char byte = scan.at[0]
    if byte == c'{' or byte == c'[':
        return _open(scan)
    if byte == c']' and scan.next == VALUE_OR_END:
        return _close(scan)
    scan.next = COMMA_OR_END
    if byte == c'"':
        return _string(scan)
    if byte == c'-' or _is_digit(byte):
        return _number(scan)
    if byte == c't':
        return _literal(scan, "true", 4)
    if byte == c'f':
        return _literal(scan, "false", 5)
    if byte == c'n':
        return _literal(scan, "null", 4)
    return _not(scan, "a value")


# ------------------------------------------------------------------------------------------------- numbers, literals


cdef bint _literal(Scan *scan, const char *literal, Py_ssize_t size) noexcept:
    cdef Py_ssize_t there = scan.end - scan.at
    if memcmp(scan.at, literal, min(there, size)) != 0:
        return _not(scan, "a value")
    scan.at += min(there, size)
    return there >= size


cdef inline bint _is_digit(unsigned char byte) noexcept:
    return c'0' <= byte <= c'9'


cdef inline const unsigned char *_digits(Scan *scan, const unsigned char *at) noexcept:
    """Behind the digits at `at`, of which there must be one; NULL where there is none."""
    scan.at = at
    while at < scan.end and _is_digit(at[0]):
        at += 1
    if at > scan.at:
        return at
    if at < scan.end:
        scan.expected = "a digit"
    return NULL


cdef bint _number(Scan *scan) noexcept:
    cdef const unsigned char *at = scan.at + (scan.at[0] == c'-')  # in a register, as scan.at cannot be
    cdef bint leading_zero = at < scan.end and at[0] == c'0'
    at = _digits(scan, at)
    if at == NULL:
        return False
    if leading_zero and at - scan.at > 1:
        return _not(scan, "no digit behind a leading 0")
    if at < scan.end and at[0] == c'.':
        at = _digits(scan, at + 1)
        if at == NULL:
            return False
    if at < scan.end and at[0] | 0x20 == c'e':
        at += 1
        if at < scan.end and (at[0] == c'+' or at[0] == c'-'):
            at += 1
        at = _digits(scan, at)
        if at == NULL:
            return False
    scan.at = at
    return True


# ------------------------------------------------------------------------------------------------- strings


cdef inline const unsigned char *_plain(const unsigned char *at, const unsigned char *end) noexcept:
    """Behind all bytes that stand for themselves within a string: to a quote, backslash, control character or the end.

    Eight at a time: byte by byte a body of 1 MiB took 0.7 ms, so it takes 0.2.
    """
    cdef uint64_t word, quotes, slashes
    while end - at >= 8:
        memcpy(&word, at, 8)
        quotes = word ^ (ONES * c'"')
        slashes = word ^ (ONES * c'\\')
        # of each byte the highest bit: below 0x20, or nothing left of it
        if ((word - ONES * 0x20) & ~word | (quotes - ONES) & ~quotes | (slashes - ONES) & ~slashes) & HIGHS:
            break
        at += 8
    while at < end and at[0] >= 0x20 and at[0] != c'"' and at[0] != c'\\':
        at += 1
    return at


cdef bint _string(Scan *scan) noexcept:
    scan.at += 1
    scan.text = scan.at
    scan.escaped = False
    while True:
        scan.at = _plain(scan.at, scan.end)
        if scan.at == scan.end:
            return False
        if scan.at[0] == c'"':
            scan.text_end = scan.at
            scan.at += 1
            return True
        if scan.at[0] != c'\\':
            return _not(scan, "no control character within a string")
        scan.escaped = True
        if not _escape(scan):
            return False


cdef bint _escape(Scan *scan) noexcept:
    cdef int unit
    scan.at += 1
    if scan.at == scan.end:
        return False
    if scan.at[0] != c'u':
        if _meaning(scan.at[0]) == 0:
            return _not(scan, "an escape of JSON")
        scan.at += 1
        return True
    if not _unit(scan, &unit):
        return False
    if unit & 0xf800 != 0xd800:
        return True
    if unit >= 0xdc00:
        return _not(scan, "no second half of a surrogate pair alone")
    if scan.end - scan.at < 2:
        scan.at = scan.end
        return False
    if scan.at[0] != c'\\' or scan.at[1] != c'u':
        return _not(scan, "the second half of a surrogate pair")
    scan.at += 1
    if not _unit(scan, &unit):
        return False
    return unit & 0xfc00 == 0xdc00 or _not(scan, "the second half of a surrogate pair")


cdef bint _unit(Scan *scan, int *unit) noexcept:
    """The four digits behind the `u` at `at`."""
    if scan.end - scan.at < 5:
        scan.at = scan.end
        return False
    unit[0] = _hex4(scan.at + 1)
    if unit[0] < 0:
        return _not(scan, "four hexadecimal digits")
    scan.at += 5
    return True


cdef int _hex4(const unsigned char *digits) noexcept:
    """Their value; -1 where one is none."""
    cdef int position, value = 0
    cdef unsigned char letter
    for position in range(4):
        letter = digits[position] | 0x20
        if _is_digit(digits[position]):
            value = value << 4 | digits[position] - c'0'
        elif c'a' <= letter <= c'f':
            value = value << 4 | letter - c'a' + 10
        else:
            return -1
    return value


cdef inline unsigned char _meaning(unsigned char escaped) noexcept:
    """The byte that a backslash before `escaped` stands for; 0 where there is none."""
    if escaped == c'"' or escaped == c'\\' or escaped == c'/':
        return escaped
    if escaped == c'n':
        return c'\n'
    if escaped == c't':
        return c'\t'
    if escaped == c'r':
        return c'\r'
    if escaped == c'b':
        return c'\b'
    return c'\f' if escaped == c'f' else 0


cdef bint _is_model(const unsigned char *at, const unsigned char *end) noexcept:
    """Whether a key, whose escapes are right, is `model`; no escape but of four digits stands for a letter."""
    cdef const unsigned char *name = <const unsigned char *> "model"
    while name[0] and at < end:
        if at[0] == name[0]:
            at += 1
        elif at[0] == c'\\' and at[1] == c'u' and _hex4(at + 2) == name[0]:
            at += 6
        else:
            return False
        name += 1
    return name[0] == 0 and at == end


cdef str _text(Scan *scan):
    """The string that was read last. Raises UnicodeDecodeError."""
    cdef bytes raw
    cdef char *out
    if not scan.escaped:
        return PyUnicode_DecodeUTF8(<const char *> scan.text, scan.text_end - scan.text, NULL)
    raw = PyBytes_FromStringAndSize(NULL, scan.text_end - scan.text)  # escapes are never shorter than what they mean
    out = PyBytes_AS_STRING(raw)
    return PyUnicode_DecodeUTF8(out, _unescape(scan, <unsigned char *> out) - <unsigned char *> out, NULL)


cdef unsigned char *_unescape(Scan *scan, unsigned char *out) noexcept:
    """Writes the string that was read last to `out`, in UTF-8; behind it."""
    cdef const unsigned char *at = scan.text
    cdef int point
    while at < scan.text_end:
        if at[0] != c'\\':
            out[0] = at[0]
            out += 1
            at += 1
        elif at[1] != c'u':
            out[0] = _meaning(at[1])
            out += 1
            at += 2
        else:
            point = _hex4(at + 2)
            at += 6
            if point & 0xf800 == 0xd800:
                point = 0x10000 + ((point & 0x3ff) << 10 | _hex4(at + 2) & 0x3ff)
                at += 6
            out = _utf8(point, out)
    return out


cdef unsigned char *_utf8(int point, unsigned char *out) noexcept:
    """Writes a code point; behind it."""
    cdef int shift
    if point < 0x80:
        out[0] = point
        return out + 1
    shift = 6 if point < 0x800 else 12 if point < 0x10000 else 18
    out[0] = (0xc0 if shift == 6 else 0xe0 if shift == 12 else 0xf0) | point >> shift
    while shift:
        out += 1
        shift -= 6
        out[0] = 0x80 | point >> shift & 0x3f
    return out + 1
