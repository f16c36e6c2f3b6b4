"""The EndpointSlices that are listed and changed, as an API server writes them. No chance in them."""

import json
from typing import Any

CLUSTER, NAMESPACE = "east", "dynamo"


def slice_of(number: int, endpoints: int, revision: int, *, ready: bool = True) -> dict[str, Any]:
    """The one slice of PoolRelay Service `number`; `ready` is its first endpoint's condition."""
    service = f"pool-{number}-pool-relay"
    return {
        "metadata": {
            "name": f"imported-{service}-x7k2p",
            "generateName": f"imported-{service}-",
            "namespace": NAMESPACE,
            "uid": f"7d4c1f0e-8a51-4c0b-9d53-{number:012d}",
            "resourceVersion": str(revision),
            "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {
                "endpointslice.kubernetes.io/managed-by": "importer.example",
                "multicluster.kubernetes.io/service-name": service,
                "multicluster.kubernetes.io/source-cluster": CLUSTER,
            },
            "managedFields": [
                {
                    "manager": "importer",
                    "operation": "Update",
                    "apiVersion": "discovery.k8s.io/v1",
                    "time": "2026-01-01T00:00:00Z",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:addressType": {}, "f:endpoints": {}, "f:metadata": {"f:labels": {".": {}}}},
                }
            ],
        },
        "addressType": "IPv4",
        "endpoints": [_endpoint(number, each, ready or each > 0) for each in range(endpoints)],
        "ports": [{"name": "relay", "protocol": "TCP", "port": 9090}],
    }


def list_body(slices: int, endpoints: int) -> bytes:
    """The answer to a list, encoded slice by slice: as one document it would take gigabytes while it is made."""
    head = (
        b'{"kind":"EndpointSliceList","apiVersion":"discovery.k8s.io/v1","metadata":{"resourceVersion":"%d"},"items":['
    )
    items = b",".join(_encoded(slice_of(number, endpoints, 1 + number)) for number in range(slices))
    return head % slices + items + b"]}"


def event_line(number: int, endpoints: int, revision: int, *, ready: bool) -> bytes:
    """One line of a watch: a slice whose first endpoint became ready or no longer is."""
    changed = slice_of(number, endpoints, revision, ready=ready)
    named = {"kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", **changed}
    return _encoded({"type": "MODIFIED", "object": named}) + b"\n"


def _endpoint(number: int, each: int, ready: bool) -> dict[str, Any]:
    address = f"10.{number >> 8 & 255}.{number & 255}.{1 + each}"
    return {
        "addresses": [address],
        "conditions": {"ready": ready, "serving": ready, "terminating": False},
        "targetRef": {
            "kind": "Pod",
            "namespace": NAMESPACE,
            "name": f"pool-{number}-relay-{each}",
            "uid": f"52c1a6be-1d0f-4b7e-8f3a-{number:06d}{each:06d}",
        },
        "nodeName": f"node-{each}",
        "zone": "us-east-2b",
    }


def _encoded(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
