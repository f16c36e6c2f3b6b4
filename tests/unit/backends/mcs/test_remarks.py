"""What is said once stays said, within bounds."""

from gdsvc.backends.mcs.naming import Reason
from gdsvc.backends.mcs.remarks import LIMIT, Once, Remark


def test_a_remark_is_new_once_whatever_its_example() -> None:
    once = Once()
    assert once.first(Remark(Reason.NO_PORT, "east/relay/a", "relay/a-1"))
    assert not once.first(Remark(Reason.NO_PORT, "east/relay/a", "relay/a-2"))
    assert once.first(Remark(Reason.SERVICE_IP, "east/relay/a", "relay/a-1"))
    assert once.first(Remark(Reason.NO_PORT, "east/relay/b", "relay/a-1"))


def test_names_from_outside_cannot_fill_the_log() -> None:
    once = Once()
    said = sum(once.first(Remark(Reason.NO_PORT, f"service {number}", "")) for number in range(2 * LIMIT))
    assert said == LIMIT
