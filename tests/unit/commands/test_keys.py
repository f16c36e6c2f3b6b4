"""KEY on the command line: which pool a text names."""

import pytest

from gdsvc.commands.keys import read_key
from gdsvc.errors import Invalid
from gdsvc.model import PoolKey


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("ohio/dynamo/mocker-1", PoolKey("ohio", "dynamo", "mocker-1")),
        ("ohio/dynamo/team%2Fmocker", PoolKey("ohio", "dynamo", "team/mocker")),
        ("a%20b/50%25/%E6%A8%A1", PoolKey("a b", "50%", "模")),
        ("a+b/c/..", PoolKey("a+b", "c", "..")),
    ],
)
def test_names_are_split_at_slashes_before_they_are_decoded(text: str, key: PoolKey) -> None:
    assert read_key(text) == key


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "%2F"),
        ("mocker-1", "%2F"),
        ("a/b/c/d", "%2F"),
        ("a//c", "namespace: expected a non-empty string"),
        ("a/b/50%", "%25"),
        ("a/b/%zz", "%25"),
        ("a/b/%ff", "UTF-8"),
        ("a/b/\udcff", "UTF-8"),
        ("a/b/%0A", "control characters"),
        ("a/b/ c", "white space"),
        ("a/b/" + "x" * 254, "253 bytes"),
    ],
)
def test_what_names_no_pool_is_refused_with_what_was_expected(text: str, said: str) -> None:
    with pytest.raises(Invalid) as caught:
        read_key(text)
    assert caught.value.field == "KEY"
    assert "expected site/namespace/name" in str(caught.value)
    assert said in str(caught.value)
