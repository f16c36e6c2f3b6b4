"""How many connections are served at once, and the file limit behind it."""

import resource

import pytest

from gdsvc.asgi.server import LEAST_SLOTS, raise_file_limit, slots_for


@pytest.mark.parametrize(
    ("max_watchers", "file_limit", "slots"),
    [
        (0, 1_048_576, LEAST_SLOTS),
        (1000, 1_048_576, LEAST_SLOTS),
        (1024, 1_048_576, LEAST_SLOTS),
        (1025, 1_048_576, LEAST_SLOTS + 1),
        (10_000, 1_048_576, 17_168),
        (10_000, 8_448, LEAST_SLOTS),
        (1000, 8_447, LEAST_SLOTS - 1),
        (1000, 1024, 768),
        (1000, 256, 128),
    ],
)
def test_slots_leave_room_for_idle_callers_and_stay_below_the_file_limit(
    max_watchers: int, file_limit: int, slots: int
) -> None:
    assert slots_for(max_watchers, file_limit) == slots


def test_the_soft_file_limit_is_raised_to_the_hard_one() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 512), hard))
    try:
        assert raise_file_limit() == hard
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
