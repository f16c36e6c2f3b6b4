"""Registrations in Leases: services as processes over one scripted API server, behind the Role of deploy/."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gdsvc.settings import parse_serve
from tests.e2e.clusters import TOKEN, Cluster, eventually, kubeconfig
from tests.e2e.process import SERVE, Serve, Service, run_to_end
from tests.e2e.rbac_proxy import Rule, allows, asked_for, gate, namespace_of
from tests.kube.api_server import reply
from tests.kube.lease_server import refused

MANIFEST = Path(__file__).parents[2] / "deploy" / "kubernetes-leases.yaml"
FLAGS = ("--registration-storage", "kubernetes", "--kubernetes-namespace", "gdsvc")
SHORT = ("--heartbeat-interval-secs", "1", "--lease-duration-secs", "3")
GROUP = "coordination.k8s.io"


def _documents() -> dict[str, Any]:
    return {document["kind"]: document for document in yaml.safe_load_all(MANIFEST.read_text())}


def _rules() -> list[Rule]:
    rules: list[Rule] = _documents()["Role"]["rules"]
    return rules


def _pool(name: str, model: str = "m") -> dict[str, Any]:
    return {"key": {"site_id": "s", "namespace": "n", "dgd_name": name}, "model": model}


def _ready(service: Service) -> Service:
    eventually(lambda: service.get("/ready").status == 200)
    return service


# ------------------------------------------------------------------------------------------------------------- RBAC


@pytest.mark.loops("asyncio")
async def test_two_replicas_work_behind_the_role_of_deploy(serve: Serve, leases: Cluster, tmp_path: Path) -> None:
    leases.tell(lambda api: setattr(api, "streaming", False))  # so that it lists and watches
    async with gate(_rules(), leases.api.port, "gdsvc") as proxy:
        path = tmp_path / "through-the-proxy"
        path.write_text(json.dumps(kubeconfig(f"http://127.0.0.1:{proxy.port}")))
        await asyncio.to_thread(_registers_and_leaves, serve, {"KUBECONFIG": str(path)})
        verbs = {"get", "list", "watch", "create", "patch", "delete"}
        assert (set(proxy.passed), proxy.refused) == ({(verb, GROUP, "leases") for verb in verbs}, [])


def _registers_and_leaves(serve: Serve, environ: dict[str, str]) -> None:
    one, other = (_ready(serve(*FLAGS, environ=environ)) for _ in range(2))
    assert one.post("/pools", _pool("p")).status == 200
    assert one.names() == ["p"]
    eventually(lambda: other.names() == ["p"])
    assert other.post("/pools", _pool("p")).status == 200
    assert other.post("/routers", {"id": "r", "url": "http://10.0.0.7:8000"}).status == 200
    eventually(lambda: len(one.get("/routers").json()["routers"]) == 1)
    with other.connect() as connection:
        assert connection.request("DELETE", "/pools/s/n/p").status == 204
        assert connection.request("DELETE", "/pools/s/n/p").status == 404
        assert other.names() == []
    eventually(lambda: one.names() == [])
    assert [replica.stop() for replica in (one, other)] == [0, 0]


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("PUT", f"/apis/{GROUP}/v1/namespaces/gdsvc/leases/a"),
        ("PATCH", f"/apis/{GROUP}/v1/namespaces/gdsvc/leases/a/status"),
        ("GET", "/api/v1/namespaces/gdsvc/secrets"),
        ("POST", "/api/v1/namespaces/gdsvc/pods"),
    ],
)
def test_the_role_allows_nothing_else(method: str, target: str) -> None:
    assert not allows(_rules(), *asked_for(method, target))
    assert allows(_rules(), *asked_for("PATCH", f"/apis/{GROUP}/v1/namespaces/gdsvc/leases/a"))


@pytest.mark.parametrize(
    ("target", "namespace"),
    [
        (f"/apis/{GROUP}/v1/namespaces/gdsvc/leases/a", "gdsvc"),
        (f"/apis/{GROUP}/v1/leases", ""),
        (f"/apis/{GROUP}/v1/namespaces/other/leases?watch=true", "other"),
    ],
)
def test_the_gate_sees_the_namespace_that_is_asked_for(target: str, namespace: str) -> None:
    assert namespace_of(target) == namespace


def test_the_manifest_starts_replicas_that_share_their_registrations() -> None:
    documents = _documents()
    assert set(documents) == {
        "ServiceAccount", "Role", "RoleBinding", "Deployment", "Service", "PodDisruptionBudget",
    }  # fmt: skip
    assert all("namespace" not in document["metadata"] for document in documents.values())
    spec = documents["Deployment"]["spec"]
    (container,) = spec["template"]["spec"]["containers"]
    settings = parse_serve(container["args"], {})
    assert settings.registration_storage == "kubernetes"
    assert spec["replicas"] > 1
    assert spec["minReadySeconds"] >= settings.lease_duration_secs
    assert spec["template"]["spec"]["automountServiceAccountToken"] is True
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] > settings.shutdown_grace_secs
    labels = spec["template"]["metadata"]["labels"].items()
    for kind in ("Service", "PodDisruptionBudget"):
        selector = documents[kind]["spec"]["selector"]
        assert selector.get("matchLabels", selector).items() <= labels
    (subject,) = documents["RoleBinding"]["subjects"]
    assert subject["name"] == spec["template"]["spec"]["serviceAccountName"]


# ----------------------------------------------------------------------------------------------------- the process


@pytest.mark.load  # for the time that it takes, as those below
def test_registrations_outlive_the_process_and_leases_end_in_the_next_one(serve: Serve, leases: Cluster) -> None:
    first = _ready(serve(*FLAGS, *SHORT, environ=leases.environ))
    for name in ("p", "q"):
        assert first.post("/pools", _pool(name)).status == 200
    assert first.stop() == 0
    second = _ready(serve(*FLAGS, *SHORT, environ=leases.environ))
    assert (second.names(), second.complete()) == (["p", "q"], False)
    eventually(second.complete)
    eventually(lambda: second.names() == [])
    assert TOKEN not in first.log + second.log


@pytest.mark.load
def test_what_cannot_be_written_is_503_and_what_does_not_fit_413(serve: Serve, leases: Cluster) -> None:
    service = _ready(serve(*FLAGS, *SHORT, environ=leases.environ))
    leases.tell(lambda api: setattr(api, "always", reply(refused(500))))
    answer = service.post("/pools", _pool("p"))
    assert (answer.status, answer.header("retry-after")) == (503, "1")
    assert b"not written in time" in answer.body
    leases.tell(lambda api: setattr(api, "always", None))
    assert service.post("/pools", _pool("p", "x" * 300_000)).status == 413
    assert service.post("/pools", _pool("p")).status == 200
    samples = service.samples()
    assert samples["gdsvc_store_writes_total"] > samples["gdsvc_store_writes_repeated_total"] > 0
    assert samples["gdsvc_store_lag_seconds"] < 10


@pytest.mark.load
def test_before_all_leases_were_seen_nothing_is_ready(serve: Serve, leases: Cluster) -> None:
    leases.tell(lambda api: setattr(api, "always", reply(refused(403))))
    service = serve(*FLAGS, environ=leases.environ)
    eventually(lambda: b"403" in service.get("/ready").body)
    assert service.get("/ready").status == service.get("/pools").status == 503
    assert service.post("/pools", _pool("p")).status == 503
    leases.tell(lambda api: setattr(api, "always", None))
    _ready(service)


@pytest.mark.load
def test_where_the_leases_are_must_be_known(leases: Cluster) -> None:
    ended = run_to_end(*SERVE, "--listen", "127.0.0.1:0", *FLAGS[:2], environ=leases.environ)
    assert ended.returncode == 1
    assert ended.stderr.endswith("--kubernetes-namespace: expected where this runs in no pod\n")
