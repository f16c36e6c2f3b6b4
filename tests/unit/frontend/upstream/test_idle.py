"""What waits to be used again is bounded in number and in time."""

from gdsvc._stock import IdleStack


def test_the_last_one_in_is_the_first_one_out() -> None:
    stack = IdleStack[str](most=3, ttl=4.0)
    for name in "abc":
        assert stack.put(name, 1.0) == []
    assert [stack.take() for _ in range(4)] == ["c", "b", "a", None]


def test_beyond_the_bound_the_oldest_goes() -> None:
    stack = IdleStack[str](most=2, ttl=4.0)
    assert [stack.put(name, 1.0) for name in "abcd"] == [[], [], ["a"], ["b"]]
    assert len(stack) == 2


def test_with_a_bound_of_none_nothing_stays() -> None:
    assert IdleStack[str](most=0, ttl=4.0).put("a", 1.0) == ["a"]


def test_an_item_stays_for_less_than_its_time() -> None:
    stack = IdleStack[str](most=3, ttl=4.0)
    stack.put("a", 1.0)
    stack.put("b", 2.0)
    assert stack.expire(4.999) == []
    assert stack.expire(5.0) == ["a"]
    assert stack.take() == "b"


def test_what_was_removed_is_not_taken() -> None:
    stack = IdleStack[str](most=3, ttl=4.0)
    for name in "abc":
        stack.put(name, 1.0)
    stack.remove("b")
    stack.remove("never in")
    assert [stack.take(), stack.take(), stack.take()] == ["c", "a", None]
