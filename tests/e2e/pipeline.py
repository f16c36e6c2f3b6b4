"""Many registrations in little time: requests are sent in batches on several connections, one thread each."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from tests.e2e.wire import Connection

CONNECTIONS = 16
BATCH = 200  # requests in flight on one connection: their replies fit the socket's buffers
END_OF_REPLY = b'"lease_duration_secs"'  # once in each reply to a registration


def register_all(port: int, requests: Sequence[bytes], connections: int = CONNECTIONS) -> int:
    """Sends all, spread over the connections; how many were answered 200. TimeoutError where replies stay out."""
    shares = [requests[start::connections] for start in range(connections)]
    with ThreadPoolExecutor(connections) as threads:
        return sum(threads.map(lambda share: _register(port, share), shares))


def _register(port: int, requests: Sequence[bytes]) -> int:
    answered = 0
    with Connection(port) as connection:
        for start in range(0, len(requests), BATCH):
            batch = requests[start : start + BATCH]
            connection.send(b"".join(batch))
            answered += _read_replies(connection, len(batch))
    return answered


def _read_replies(connection: Connection, expected: int) -> int:
    replies = b""
    while replies.count(b"}", replies.rfind(END_OF_REPLY)) == 0 or replies.count(END_OF_REPLY) < expected:
        received = connection.socket.recv(1 << 18)
        assert received, replies[-500:]
        replies += received
    return replies.count(b"HTTP/1.1 200 ")
