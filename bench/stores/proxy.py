"""Counts what goes to and from a DynamoDB, and can answer for it: `python -m bench.stores.proxy PORT TABLE_PORT`.

A Query of ten thousand pools takes a DynamoDB of the tests seconds, which is no matter here. `GET /-/replay` has each
Query answered as it was answered last; `GET /-/renew` does so, too, but with stamps that nobody has seen;
`GET /-/pass` ends both, and forgets the answers. `GET /-/counts` says as JSON what was counted since it was asked last.
"""

import asyncio
import re
import sys
from collections.abc import Sequence
from typing import Final

import msgspec

from bench.stores.items import renewed

CONTROL: Final = "/-/"
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
_TARGET = re.compile(rb"(?i)\r\nx-amz-target: *\w+\.(\w+)")
_OF_THE_HOP = re.compile(rb"(?i)\r\n(?:connection|keep-alive|x-amz-crc32):[^\r]*")


class Counts(msgspec.Struct):
    """Calls by their operation, and bytes of requests and of answers, heads included."""

    calls: dict[str, int] = {}
    asked: int = 0
    answered: int = 0

    @property
    def all_calls(self) -> int:
        """Of every operation."""
        return sum(self.calls.values())


class Proxy:
    """One upstream connection for each call: what an idle one would cost is not ours to count."""

    def __init__(self, table_port: int) -> None:
        self._table_port = table_port
        self._answers: dict[bytes, bytes] = {}  # of the table to queries, by the request's body
        self._given: dict[bytes, bytes] = {}  # those that we gave last
        self._mode = "pass"
        self._renewals = 0
        self._counts = Counts()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Calls of one connection, one after the other."""
        try:
            while True:
                head, body = await _message(reader)
                path = head.split(b" ", 2)[1].decode()
                if path.startswith(CONTROL):
                    writer.write(_answer(self._told(path.removeprefix(CONTROL))))
                else:
                    writer.write(await self._called(head, body))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def _told(self, what: str) -> bytes:
        if what != "counts":
            self._mode = what
            if what == "pass":
                self._given.clear()
            return b"{}"
        counts, self._counts = self._counts, Counts()
        return msgspec.json.encode(counts)

    async def _called(self, head: bytes, body: bytes) -> bytes:
        found = _TARGET.search(head)
        operation = found[1].decode() if found else ""
        counts = self._counts
        counts.calls[operation] = counts.calls.get(operation, 0) + 1
        counts.asked += len(head) + len(body)
        answer = await (self._queried(head, body) if operation == "Query" else self._passed(head, body))
        counts.answered += len(answer)
        return answer

    async def _queried(self, head: bytes, body: bytes) -> bytes:
        given = self._given.get(body) if self._mode != "pass" else None
        if given is None:
            self._answers[body] = given = await self._passed(head, body)
        if self._mode == "renew":
            self._renewals += 1
            given = renewed(self._answers[body], self._renewals)
        self._given[body] = given
        return given

    async def _passed(self, head: bytes, body: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._table_port)
        try:
            writer.write(_OF_THE_HOP.sub(b"", head).removesuffix(b"\r\n") + b"Connection: close\r\n\r\n" + body)
            answer, content = await _message(reader)
            return _OF_THE_HOP.sub(b"", answer) + content
        finally:
            writer.close()


async def _message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """A head with its empty line, and a body of the length that it says."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = _LENGTH.search(head)
    return head, await reader.readexactly(int(length[1])) if length else b""


def _answer(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


async def _run(port: int, table_port: int) -> None:
    server = await asyncio.start_server(Proxy(table_port).serve, "127.0.0.1", port, limit=1 << 20)
    async with server:
        await server.serve_forever()


def main(arguments: Sequence[str]) -> None:
    """Until it is stopped by a signal."""
    port, table_port = map(int, arguments)
    asyncio.run(_run(port, table_port))


if __name__ == "__main__":
    main(sys.argv[1:])
