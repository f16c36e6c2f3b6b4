"""Lines of a watch, as the API server writes them, for tests."""

import json
from typing import Any

from gdsvc.kube.objects import ENDPOINT_SLICE, EndpointSlice


def slice_dict(name: str, revision: int | str, *addresses: str) -> dict[str, Any]:
    """An EndpointSlice of namespace demo."""
    metadata = {"name": name, "namespace": "demo", "uid": f"uid-{name}", "resourceVersion": str(revision)}
    endpoints = [{"addresses": [address], "conditions": {"ready": True}} for address in addresses]
    return {"metadata": metadata, "addressType": "IPv4", "endpoints": endpoints, "ports": None}


def slice_(name: str, revision: int | str, *addresses: str) -> EndpointSlice:
    """The same, decoded."""
    return ENDPOINT_SLICE.decode(json.dumps(slice_dict(name, revision, *addresses)))


def event(kind: str, name: str, revision: int | str, *addresses: str) -> bytes:
    """A line with an EndpointSlice."""
    return json.dumps({"type": kind, "object": slice_dict(name, revision, *addresses)}).encode()


def bookmark(revision: int | str, *, end: bool = False) -> bytes:
    """A line with a bookmark; `end` is the one that ends a streaming list."""
    metadata: dict[str, Any] = {"resourceVersion": str(revision), "creationTimestamp": None}
    if end:
        metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
    return json.dumps({"type": "BOOKMARK", "object": {"kind": "EndpointSlice", "metadata": metadata}}).encode()


def status(code: int, reason: str | None = None, message: str = "", **details: Any) -> bytes:
    """A Status, as a body."""
    body: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "message": message, "code": code}
    if reason is not None:
        body["reason"] = reason
    if details:
        body["details"] = details
    return json.dumps(body).encode()


def error(code: int, reason: str | None = None, message: str = "", **details: Any) -> bytes:
    """A Status, as an ERROR line of a watch."""
    return b'{"type":"ERROR","object":' + status(code, reason, message, **details) + b"}"
