"""A small blocking client of the API server for tests: changes slices, asks for the truth, knows nothing of pools."""

import http.client
import json
import ssl
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

WRITERS: Final = 8  # connections that write at once where there are thousands of slices
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SLICES: Final = "/apis/discovery.k8s.io/v1/endpointslices"

Document = dict[str, Any]


class Refused(Exception):
    """The API server answered something other than 2xx."""

    def __init__(self, code: int, body: bytes) -> None:
        super().__init__(f"{code}: {body[:500]!r}")
        self.code = code


class Api:
    """The server at `port`, believed by its `certificate`. One connection a thread; raises Refused and OSError."""

    def __init__(self, port: int, certificate: Path, patience_secs: float = 20.0) -> None:
        self._port = port
        self._patience_secs = patience_secs
        self._tls = ssl.create_default_context(cafile=str(certificate))
        self._local = threading.local()
        self._connections: list[http.client.HTTPSConnection] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for connection in self._connections:
            connection.close()

    def ready(self) -> bool:
        """Whether the server says that it is."""
        try:
            return self._ask("GET", "/readyz") == b"ok"
        except Refused:
            return False

    def define(self, group: str, plural: str, kind: str) -> None:
        """Makes the server serve a kind of that group, version v1, with any content; returns before it does."""
        names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
        schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
        version = {"name": "v1", "served": True, "storage": True, "schema": schema}
        annotations = {"api-approved.kubernetes.io": "unapproved, for tests"}
        definition = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}", "annotations": annotations},
            "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": [version]},
        }
        self._ask("POST", DEFINITIONS, definition)

    def serves(self, path: str) -> bool:
        """Whether the kind behind `path` can be listed."""
        try:
            self._ask("GET", path)
        except Refused:
            return False
        return True

    def put(self, document: Document) -> int:
        """Creates or replaces; the revision of that change."""
        collection = collection_of(document)
        path = f"{collection}/{document['metadata']['name']}"
        try:
            return _revision(self._ask("POST", collection, document))
        except Refused as refused:
            if refused.code != 409:
                raise
        known = json.loads(self._ask("GET", path))["metadata"]["resourceVersion"]
        metadata = document["metadata"] | {"resourceVersion": known}
        return _revision(self._ask("PUT", path, document | {"metadata": metadata}))

    def put_all(self, documents: Iterable[Document]) -> None:
        """As `put`, on several connections."""
        with ThreadPoolExecutor(WRITERS) as pool:
            for _ in pool.map(self.put, documents):
                pass

    def delete(self, document: Document) -> None:
        """Takes it out."""
        self._ask("DELETE", f"{collection_of(document)}/{document['metadata']['name']}")

    def slices(self) -> list[Document]:
        """All EndpointSlices there are, from etcd."""
        return list(json.loads(self._ask("GET", SLICES))["items"])

    def _ask(self, method: str, path: str, document: Document | None = None) -> bytes:
        connection = self._connection()
        body = None if document is None else json.dumps(document)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            if isinstance(error, OSError):
                raise
            raise ConnectionError(str(error)) from error
        if response.status >= 300:
            raise Refused(response.status, answer)
        return answer

    def _connection(self) -> http.client.HTTPSConnection:
        """This thread's; after a fault it connects anew by itself."""
        connection: http.client.HTTPSConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = http.client.HTTPSConnection(
                "127.0.0.1", self._port, context=self._tls, timeout=self._patience_secs
            )
            self._local.connection = connection
            self._connections.append(connection)
        return connection


def collection_of(document: Document) -> str:
    """Where documents like this one are."""
    plural = f"{document['kind'].lower()}s"
    return f"/apis/{document['apiVersion']}/namespaces/{document['metadata']['namespace']}/{plural}"


def _revision(answer: bytes) -> int:
    return int(json.loads(answer)["metadata"]["resourceVersion"])
