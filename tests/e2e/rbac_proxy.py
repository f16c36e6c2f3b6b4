"""A proxy before an API server that lets through only what the rules of a role allow, as RBAC does.

It decides by the first request of a connection, and ends the connection after it. Of a Role, `namespace` is where it
holds.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from urllib.parse import parse_qs, urlsplit

from tests.kube.api_server import answer, listening
from tests.unit.kube.events import status

Rule = Mapping[str, Sequence[str]]
WRITES = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def namespace_of(target: str) -> str:
    """The namespace that a request stays within; empty where it is for all, or for none."""
    parts = urlsplit(target).path.strip("/").split("/")
    return parts[parts.index("namespaces") + 1] if "namespaces" in parts[:-1] else ""


def asked_for(method: str, target: str) -> tuple[str, str, str]:
    """(verb, API group, resource) of a request, as the API server takes it apart; empty where it is for no resource."""
    url = urlsplit(target)
    parts = url.path.strip("/").split("/")
    group, rest = (parts[1], parts[3:]) if parts[0] == "apis" and len(parts) > 3 else ("", parts[2:])
    if parts[0] not in ("api", "apis") or not rest:
        return "", "", ""
    if rest[0] == "namespaces" and len(rest) > 2:
        rest = rest[2:]
    read = "get" if len(rest) > 1 else "list"
    if parse_qs(url.query).get("watch", ["false"])[-1] not in ("false", "0"):
        read = "watch"
    return WRITES.get(method, read), group, "/".join([rest[0], *rest[2:]])


def allows(rules: Sequence[Rule], verb: str, group: str, resource: str) -> bool:
    """Whether one of the rules grants it. Names of resources in a rule would narrow it: those are not known here."""
    return any(
        verb in rule["verbs"] and group in rule["apiGroups"] and resource in rule["resources"]
        for rule in rules
        if set(rule) == {"verbs", "apiGroups", "resources"}
    )


class Gate:
    """What `rules` let through to `port` goes there; the rest gets 403. `passed` and `refused` hold what was asked."""

    def __init__(self, rules: Sequence[Rule], port: int, namespace: str = "") -> None:
        self.passed: list[tuple[str, str, str]] = []
        self.refused: list[tuple[str, str, str]] = []
        self.port = 0
        self._rules = rules
        self._behind = port
        self._namespace = namespace

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head = await reader.readuntil(b"\r\n\r\n")
            method, target, _ = head.split(b"\r\n")[0].decode().split(" ")
            asked = asked_for(method, target)
            if allows(self._rules, *asked) and (not self._namespace or namespace_of(target) == self._namespace):
                self.passed.append(asked)
                await self._pass_on(head, await reader.readexactly(_length(head)), writer)
            else:
                self.refused.append(asked)
                writer.write(answer(403, status(403, "Forbidden", f"cannot {' '.join(asked)}")))
        writer.close()

    async def _pass_on(self, head: bytes, body: bytes, writer: asyncio.StreamWriter) -> None:
        answers, asking = await asyncio.open_connection("127.0.0.1", self._behind)
        try:
            asking.write(head[:-2] + b"Connection: close\r\n\r\n" + body)
            while chunk := await answers.read(1 << 16):
                writer.write(chunk)
                await writer.drain()
        finally:
            asking.close()


def _length(head: bytes) -> int:
    found = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    return int(found[1]) if found else 0


@asynccontextmanager
async def gate(rules: Sequence[Rule], port: int, namespace: str = "") -> AsyncIterator[Gate]:
    """A gate on a free port, gone with its connections after the block."""
    made = Gate(rules, port, namespace)
    async with listening(made.connected) as made.port:
        yield made
