"""The scripted API server with Leases of any namespace: created, patched and deleted by requests, listed and watched.

It keeps the rules that matter to a writer: a name is created once, a patch whose `test` fails is 422, annotations hold
256 KiB in all. `lost` takes the next writes that are done, but whose answer never comes.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.client import responses
from typing import Any

from tests.kube.api_server import ApiServer, Request, answer, served
from tests.unit.kube.events import status

ANNOTATION_BYTES = 256 << 10
Document = dict[str, Any]


class Refusal(Exception):
    """A write that is against the rules."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.answer = answer(code, status(code, reason, message), connection="keep-alive")


@dataclass
class LeaseServer(ApiServer):
    """Names are unique over all namespaces, as in the server that this one extends."""

    lost: int = 0
    created: int = 0
    connections: set[int] = field(default_factory=set[int])  # the ports of callers who wrote

    async def _truth(self, request: Request, writer: asyncio.StreamWriter) -> None:
        parts = request.path.strip("/").split("/")  # apis, group, version, namespaces, namespace, leases, name
        if request.method == "GET" and len(parts) == 6:
            await super()._truth(request, writer)
            return
        self.connections.add(writer.get_extra_info("peername")[1])
        try:
            code, document = self._written(request, parts)
            reply = answer(code, json.dumps(document).encode(), connection="keep-alive")
        except Refusal as refusal:
            reply = refusal.answer
        if self.lost and request.method != "GET":
            self.lost -= 1
            return
        writer.write(reply)
        if request.headers.get("connection") != "close":
            self.kept.add(writer)

    def _written(self, request: Request, parts: list[str]) -> tuple[int, Document]:
        match request.method:
            case "POST":
                return 201, self._create(json.loads(request.body))
            case "PATCH":
                assert request.headers["content-type"] == "application/json-patch+json"
                return 200, self._patch(self._known(parts[6]), json.loads(request.body))
            case "DELETE":
                return 200, self._delete(self._known(parts[6]), json.loads(request.body or b"{}"))
            case _:
                return 200, self._known(parts[6])

    def _known(self, name: str) -> Document:
        if name not in self.objects:
            raise Refusal(404, "NotFound", f'leases "{name}" not found')
        return self.objects[name]

    def _create(self, document: Document) -> Document:
        name = document["metadata"]["name"]
        if name in self.objects:
            raise Refusal(409, "AlreadyExists", f'leases "{name}" already exists')
        self.created += 1
        document["metadata"]["uid"] = f"uid-{self.created}"
        return self._stored(document)

    def _patch(self, before: Document, operations: list[Document]) -> Document:
        document: Document = json.loads(json.dumps(before))
        for operation in operations:
            *path, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
            parent = document
            for part in path:
                parent = parent.get(part, {})
            if operation["op"] == "test" and parent.get(last) != operation["value"]:
                raise Refusal(422, "Invalid", "the server rejected our request due to an error in our request")
            if operation["op"] == "replace" and last not in parent:
                raise Refusal(422, "Invalid", "the server rejected our request due to an error in our request")
            if operation["op"] != "test":
                parent[last] = operation["value"]
        return self._stored(document)

    def _delete(self, document: Document, options: Document) -> Document:
        wanted = options.get("preconditions", {})
        known = document["metadata"]
        if any(known[name] != value for name, value in wanted.items()):
            raise Refusal(409, "Conflict", "Precondition failed")
        self.delete(document["metadata"]["name"])
        return {"kind": "Status", "status": "Success", "details": {"uid": known["uid"]}}

    def _stored(self, document: Document) -> Document:
        annotations: dict[str, str] = document["metadata"].get("annotations", {})
        if sum(len(key) + len(value.encode()) for key, value in annotations.items()) > ANNOTATION_BYTES:
            raise Refusal(
                422, "Invalid", f"metadata.annotations: Too long: may not be more than {ANNOTATION_BYTES} bytes"
            )
        self.take(document)
        return self.objects[document["metadata"]["name"]]

    def change(self, name: str, act: Callable[[Document], None]) -> None:
        """What somebody else writes."""
        document: Document = json.loads(json.dumps(self.objects[name]))
        act(document)
        self.take(document)

    def writes(self) -> list[str]:
        """The methods of the writes that were asked for, in order."""
        return [request.method for request in self.requests if request.method != "GET"]


@asynccontextmanager
async def lease_server(**options: Any) -> AsyncIterator[LeaseServer]:
    """A server on 127.0.0.1, gone with every connection after the block."""
    async with served(LeaseServer(**options)) as api:
        yield api


def refused(code: int, *headers: str) -> bytes:
    """A whole answer that says no."""
    return answer(code, status(code, responses[code].replace(" ", ""), "scripted"), *headers)
