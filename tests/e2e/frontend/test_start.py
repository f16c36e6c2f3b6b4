"""A Global Frontend that cannot start says why in one line."""

import socket

from tests.e2e.people import at_once

ROUTES = ("--pool=a=http://127.0.0.1:1", "--discovery-url=http://127.0.0.1:1")  # given, and of a service


def test_a_taken_port_is_one_line_and_exit_code_1() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = at_once(*(("frontend", route, "--listen", address, "--log-level", "error") for route in ROUTES))
    assert ended == [(1, "", f"gdsvc frontend: cannot listen on {address}: Address already in use\n")] * 2
