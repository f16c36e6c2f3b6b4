"""haproxy as an operator would put it before replicas: by turns, only those that are ready, again where one is gone.

Debian's package, run as a process of the test's own: nothing of the machine's haproxy, if it has one, is touched.
"""

import shutil
import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cluster.programs import Program, free_port

# `redispatch 1`: the other attempts go to other replicas, or all of them would go to the one that was killed, with a
# second between them. Only what was never sent is tried again; a relay repeats its heartbeats itself.
CONFIG = """
global
    maxconn 2000
defaults
    mode http
    timeout connect 500ms
    timeout client 65s
    timeout server 5s
    timeout check 2s
    retries 3
    option redispatch 1
frontend relays
    bind 127.0.0.1:{port}
    default_backend replicas
backend replicas
    balance roundrobin
    option httpchk GET /ready
    http-check expect status 200
    default-server check inter 500ms fall 2 rise 1
{servers}
"""


class Balancer(Program):
    """`with Balancer(folder, ports) as balancer`: listens at `balancer.port`, with a replica at each of `ports`."""

    def __init__(self, folder: Path, ports: Sequence[int]) -> None:
        program = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin:/usr/local/sbin")
        if program is None:
            pytest.fail("this test needs haproxy: apt-get install --no-install-recommends haproxy", pytrace=False)
        self.port = free_port()
        config = folder / "haproxy.cfg"
        servers = "\n".join(f"    server r{port} 127.0.0.1:{port}" for port in ports)
        config.write_text(CONFIG.format(port=self.port, servers=servers))
        super().__init__((program, "-db", "-f", str(config)), folder / "haproxy.log")

    def answers(self) -> bool:
        """Whether it takes connections."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=2.0):
                return True
        except OSError:
            return False
