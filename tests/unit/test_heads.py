"""The compiled sieve of header fields against the plain way to say what it does."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gdsvc._heads import Sieve

Fields = list[tuple[bytes, bytes]]
DROPPED = frozenset((b"connection", b"te", b"x-dropped"))
MARK = (b"via", b"us")
SIEVE = Sieve(DROPPED, MARK)


def plainly(headers: Fields) -> Fields:
    lowered = [(name.lower(), value) for name, value in headers]
    named = {
        option.strip(b" \t").lower() for name, value in lowered if name == b"connection" for option in value.split(b",")
    }
    return [*(field for field in lowered if field[0] not in DROPPED | named), MARK]


NAMES = st.sampled_from([b"Connection", b"connection", b"CONNECTION", b"Te", b"te", b"X-Dropped", b"X-a", b"x-A", b"b"])
OPTIONS = st.sampled_from([b"x-a", b"X-A", b" b", b"\tb\t", b"", b"close", b"keep-alive", b"te"])
FIELDS = st.tuples(NAMES, st.lists(OPTIONS, max_size=3).map(b",".join) | st.binary(max_size=4))


@given(st.lists(FIELDS, max_size=8))
def test_what_passes_is_what_is_neither_dropped_nor_named_in_lower_case_and_in_order(headers: Fields) -> None:
    assert SIEVE(headers) == plainly(headers)


@given(st.binary(max_size=9))
def test_only_letters_of_ascii_have_a_lower_case(name: bytes) -> None:
    assert SIEVE([(name, b"")]) == plainly([(name, b"")])


def test_the_fields_that_came_are_not_changed() -> None:
    headers = [(b"X-A", b"1"), (b"x-b", b"2"), (b"Connection", b"x-b")]
    before = list(headers)
    assert SIEVE(headers) == [(b"x-a", b"1"), MARK]
    assert headers == before
    assert headers[0][0] == b"X-A"


@pytest.mark.parametrize("headers", [[("a", b"1")], [b"a"], None])
def test_what_is_no_field_is_refused(headers: Fields) -> None:
    with pytest.raises(TypeError):
        SIEVE(headers)


def test_a_name_of_one_letter_changes_that_letter_nowhere_else() -> None:
    """CPython has one object for each single byte: whoever writes into it changes the letter for the whole process."""
    program = (
        "from gdsvc._heads import Sieve;"
        "assert Sieve(frozenset(), (b'via', b'us'))([(b'ABC'[:1], b'1')])[0] == (bytes([97]), b'1');"
        "assert list(b'ABC'[:1]) == [65], 'A has become a'"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")  # in a process of its own, which may be spoiled
