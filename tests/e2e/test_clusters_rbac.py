"""The service behind a proxy that enforces the ClusterRole of deploy/: it needs no more than that, and all of it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.clusters import Cluster, eventually, imported, kubeconfig, pod
from tests.e2e.process import Serve
from tests.e2e.rbac_proxy import Rule, allows, asked_for, gate

MANIFEST = Path(__file__).parents[2] / "deploy" / "kubernetes-clusters.yaml"
SLICES = "/apis/discovery.k8s.io/v1/endpointslices"
READS = {("list", "discovery.k8s.io", "endpointslices"), ("watch", "discovery.k8s.io", "endpointslices")}


def _rules() -> list[Rule]:
    documents: list[Any] = list(yaml.safe_load_all(MANIFEST.read_text()))
    (role,) = [document for document in documents if document["kind"] == "ClusterRole"]
    rules: list[Rule] = role["rules"]
    return rules


@pytest.mark.loops("asyncio")
async def test_the_service_works_behind_the_rules_of_deploy(serve: Serve, east: Cluster, tmp_path: Path) -> None:
    east.tell(lambda api: setattr(api, "streaming", False))  # so that it lists and watches
    east.put(imported("gw-pool-relay", pod("10.0.0.1")))
    async with gate(_rules(), east.api.port) as proxy:
        path = tmp_path / "through-the-proxy"
        path.write_text(json.dumps(kubeconfig(f"http://127.0.0.1:{proxy.port}")))
        await asyncio.to_thread(_appears_and_leaves, serve, east, {"KUBECONFIG": str(path)})
        assert (set(proxy.passed), proxy.refused) == (READS, [])


def _appears_and_leaves(serve: Serve, east: Cluster, environ: dict[str, str]) -> None:
    service = serve("--pool-discovery", "mcs", environ=environ)
    eventually(lambda: service.get("/pools").status == 200 and service.names() == ["gw"])
    east.put(imported("other-pool-relay", pod("10.0.0.2")))
    eventually(lambda: service.names() == ["gw", "other"])
    east.delete("east-gw-pool-relay")
    eventually(lambda: service.names() == ["other"])


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("POST", "/apis/discovery.k8s.io/v1/namespaces/relay/endpointslices"),
        ("DELETE", "/apis/discovery.k8s.io/v1/namespaces/relay/endpointslices/a"),
        ("PATCH", "/apis/discovery.k8s.io/v1/namespaces/relay/endpointslices/a"),
        ("GET", "/apis/discovery.k8s.io/v1/namespaces/relay/endpointslices/a/status"),
        ("GET", "/apis/multicluster.x-k8s.io/v1alpha1/serviceimports"),
        ("GET", "/api/v1/secrets"),
        ("GET", "/api/v1/endpointslices"),
        ("GET", "/version"),
    ],
)
def test_the_rules_allow_nothing_else(method: str, target: str) -> None:
    assert not allows(_rules(), *asked_for(method, target))
    assert allows(_rules(), *asked_for("GET", SLICES))
