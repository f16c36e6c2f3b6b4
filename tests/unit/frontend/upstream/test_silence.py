"""Silence is of one exchange; one timer serves all of a connection. Time is a loop's that is wound by hand."""

from collections.abc import Callable
from typing import TypeVarTuple

from gdsvc.frontend.upstream.silence import Silence

LIMIT = 10.0

_Ts = TypeVarTuple("_Ts")


class Wound:
    """A clock with timers."""

    def __init__(self) -> None:
        self.now = 0.0
        self.timers: list[Timer] = []
        self.set_so_far = 0

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[*_Ts], object], /, *args: *_Ts) -> "Timer":
        timer = Timer(self, when, lambda: callback(*args))
        self.timers.append(timer)
        self.set_so_far += 1
        return timer

    def wind(self, until: float) -> None:
        """Runs what is due up to `until`."""
        while due := [timer for timer in self.timers if timer.when <= until]:
            first = min(due, key=lambda timer: timer.when)
            self.timers.remove(first)
            self.now = max(self.now, first.when)
            first.run()
        self.now = until


class Timer:
    """One of a Wound."""

    def __init__(self, wound: Wound, when: float, run: Callable[[], object]) -> None:
        self.when = when
        self.run = run
        self._wound = wound

    def cancel(self) -> None:
        self._wound.timers.remove(self)


class Asked:
    """Counts the times it was asked; answers `answer`."""

    def __init__(self, answer: bool = True) -> None:
        self.times = 0
        self.answer = answer

    def __call__(self) -> bool:
        self.times += 1
        return self.answer


def test_silence_is_asked_for_once_after_the_limit_and_a_second_look() -> None:
    loop, asked = Wound(), Asked()
    Silence(loop, LIMIT, asked).start()
    loop.wind(10.0049)
    assert asked.times == 0
    loop.wind(40.0)
    assert (asked.times, loop.timers) == (1, [])


def test_an_exchange_has_all_its_time_though_the_timer_is_of_the_one_before() -> None:
    loop, asked = Wound(), Asked()
    silence = Silence(loop, LIMIT, asked)
    silence.start()
    loop.wind(4.0)
    silence.stop()
    loop.wind(9.0)
    silence.start()
    loop.wind(19.0)
    assert asked.times == 0
    loop.wind(19.01)
    assert asked.times == 1


def test_what_is_heard_gives_all_the_time_again_and_so_does_an_answer_that_it_is_not_silent() -> None:
    loop, asked = Wound(), Asked(answer=False)
    silence = Silence(loop, LIMIT, asked)
    silence.start()
    loop.wind(9.0)
    silence.heard()
    loop.wind(18.9)
    assert asked.times == 0
    loop.wind(28.9)
    assert asked.times == 1
    loop.wind(29.1)
    assert asked.times == 2


def test_many_exchanges_set_one_timer_and_between_two_nothing_is_silent() -> None:
    loop, asked = Wound(), Asked()
    silence = Silence(loop, LIMIT, asked)
    for _ in range(100):
        silence.start()
        silence.heard()
        silence.stop()
    assert loop.set_so_far == 1
    loop.wind(100.0)
    assert (asked.times, loop.timers) == (0, [])
    silence.start()
    loop.wind(111.0)
    assert asked.times == 1


def test_a_closed_one_leaves_no_timer() -> None:
    loop = Wound()
    silence = Silence(loop, LIMIT, Asked())
    silence.start()
    silence.close()
    assert loop.timers == []


def test_without_a_limit_nothing_is_ever_silent() -> None:
    loop = Wound()
    silence = Silence(loop, None, Asked())
    silence.start()
    silence.heard()
    assert loop.timers == []
