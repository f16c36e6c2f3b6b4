"""The Dockerfile and the manifest against the service that they start."""

import inspect
import json
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from gdsvc.backends.dynamodb import table
from gdsvc.http import routes
from gdsvc.http.prometheus import query_of
from gdsvc.settings import Settings, parse_serve
from gdsvc.stopping import NOTICE_SECS, NOTICE_SHARE

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
Document = dict[str, Any]


def _manifest() -> dict[str, Document]:
    return {document["kind"]: document for document in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())}


@pytest.fixture
def deployment() -> Document:
    spec = _manifest()["Deployment"]["spec"]
    assert isinstance(spec, dict)
    return spec


@pytest.fixture
def pod(deployment: Document) -> Document:
    spec = deployment["template"]["spec"]
    assert isinstance(spec, dict)
    return spec


@pytest.fixture
def container(pod: Document) -> Document:
    (only,) = pod["containers"]
    assert isinstance(only, dict)
    return only


@pytest.fixture
def settings(container: Document) -> Settings:
    return parse_serve(container["args"], {})


def _dockerfile() -> list[tuple[str, str]]:
    """(instruction, arguments) of the Dockerfile, continued lines joined."""
    text = re.sub(r"^#.*\n", "", (DEPLOY / "Dockerfile").read_text(), flags=re.M).replace("\\\n", " ")
    pairs = (line.partition(" ") for line in text.splitlines() if line)
    return [(word, rest.strip()) for word, _, rest in pairs]


def test_the_manifest_has_what_one_replica_needs() -> None:
    assert set(_manifest()) == {"ServiceAccount", "Deployment", "Service"}
    assert all("namespace" not in document["metadata"] for document in _manifest().values())


def test_one_replica_is_never_doubled_since_its_leases_are_in_memory(deployment: Document, settings: Settings) -> None:
    assert settings.registration_storage == "memory"
    assert deployment["replicas"] == 1
    assert deployment["strategy"] == {"type": "Recreate"}


def test_selectors_find_the_pods(deployment: Document) -> None:
    labels = deployment["template"]["metadata"]["labels"]
    assert deployment["selector"]["matchLabels"].items() <= labels.items()
    assert _manifest()["Service"]["spec"]["selector"].items() <= labels.items()


def test_ports_are_the_one_that_the_service_listens_on(
    deployment: Document, container: Document, settings: Settings
) -> None:
    (container_port,) = container["ports"]
    (service_port,) = _manifest()["Service"]["spec"]["ports"]
    annotations = deployment["template"]["metadata"]["annotations"]
    assert container_port["containerPort"] == settings.listen_port
    assert service_port["targetPort"] == container_port["name"]
    assert annotations["prometheus.io/port"] == str(settings.listen_port)
    assert ("EXPOSE", str(settings.listen_port)) in _dockerfile()
    assert settings.listen_host == "0.0.0.0"


def test_probes_and_scrapes_ask_real_routes(deployment: Document, container: Document) -> None:
    assert container["readinessProbe"]["httpGet"] == {"path": routes.READY, "port": "http"}
    assert container["livenessProbe"]["httpGet"] == {"path": routes.LIVE, "port": "http"}
    annotations = deployment["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/scrape"] == "true"
    assert annotations["prometheus.io/path"] == routes.METRICS


def test_readiness_is_lost_before_the_listener_closes(container: Document, settings: Settings) -> None:
    probe = container["readinessProbe"]
    notice = min(NOTICE_SECS, settings.shutdown_grace_secs * NOTICE_SHARE)
    assert probe["periodSeconds"] * probe["failureThreshold"] <= notice
    assert probe["timeoutSeconds"] <= probe["periodSeconds"]


def test_the_service_ends_before_it_is_killed(pod: Document, settings: Settings) -> None:
    assert pod["terminationGracePeriodSeconds"] > settings.shutdown_grace_secs


def test_a_busy_moment_restarts_nothing(container: Document, settings: Settings) -> None:
    probe = container["livenessProbe"]
    assert probe["periodSeconds"] * probe["failureThreshold"] > settings.lease_duration_secs


def test_the_pod_has_no_privileges(pod: Document, container: Document) -> None:
    assert pod["automountServiceAccountToken"] is False
    assert _manifest()["ServiceAccount"]["automountServiceAccountToken"] is False
    assert pod["serviceAccountName"] == _manifest()["ServiceAccount"]["metadata"]["name"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_memory_is_bounded_and_cpu_is_not_throttled(container: Document) -> None:
    assert set(container["resources"]["requests"]) == {"cpu", "memory"}
    assert set(container["resources"]["limits"]) == {"memory"}


def test_image_and_pod_run_as_the_same_numbered_user(pod: Document) -> None:
    ((_, user),) = [pair for pair in _dockerfile() if pair[0] == "USER"]
    assert re.fullmatch(r"[1-9][0-9]*:[1-9][0-9]*", user)
    assert user == f"{pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}"


def test_the_image_starts_the_service_without_a_shell() -> None:
    ((_, entrypoint),) = [pair for pair in _dockerfile() if pair[0] == "ENTRYPOINT"]
    assert json.loads(entrypoint) == ["gdsvc", "serve"]
    assert not [word for word, _ in _dockerfile() if word == "CMD"]


def test_image_label_and_tag_name_this_version(container: Document) -> None:
    labels = " ".join(rest for word, rest in _dockerfile() if word == "LABEL")
    assert f'org.opencontainers.image.version="{version("gdsvc")}"' in labels
    assert container["image"] == f"gdsvc:{version('gdsvc')}"


def test_what_the_image_is_built_from_is_let_through() -> None:
    let_through = {line[1:] for line in (DEPLOY.parent / ".dockerignore").read_text().split() if line.startswith("!")}
    copied = " ".join(rest for word, rest in _dockerfile() if word == "COPY" and not rest.startswith("--from"))
    assert let_through == set(copied.split()) - {"./"}
    assert all((DEPLOY.parent / name).exists() for name in let_through)


def test_prometheus_is_told_to_ask_for_what_there_is() -> None:
    text = (DEPLOY / "prometheus.yml").read_text()
    jobs = {job["job_name"]: job for job in yaml.safe_load(text)["scrape_configs"]}
    urls = [urlsplit(config["url"]) for job in jobs.values() for config in job.get("http_sd_configs", ())]
    assert {url.path for url in urls} == {routes.PROMETHEUS}
    assert [query_of(url.query.encode()).targets for url in urls] == ["frontends", "routers"]
    assert not [url for url in urls if "incomplete" in url.query], "a short list would drop what is scraped"


def test_the_readme_shows_the_configuration_of_prometheus_as_it_is() -> None:
    (shown,) = re.findall(r"^```yaml\n(scrape_configs:.*?)^```$", (ROOT / "README.md").read_text(), re.M | re.S)
    assert shown in (DEPLOY / "prometheus.yml").read_text()


def _of_clusters() -> dict[str, Document]:
    return {doc["kind"]: doc for doc in yaml.safe_load_all((DEPLOY / "kubernetes-clusters.yaml").read_text())}


def test_karmada_and_mcs_may_read_slices_and_nothing_else() -> None:
    assert _of_clusters()["ClusterRole"]["rules"] == [
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["get", "list", "watch"]}
    ]


def test_the_role_is_bound_to_the_account_of_the_pod() -> None:
    documents = _of_clusters()
    account, binding = documents["ServiceAccount"]["metadata"], documents["ClusterRoleBinding"]
    subject = {"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}
    assert binding["subjects"] == [subject]
    assert binding["roleRef"]["name"] == documents["ClusterRole"]["metadata"]["name"]
    pod = documents["Deployment"]["spec"]["template"]["spec"]
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == (account["name"], True)


def test_the_manifest_for_clusters_is_the_other_one_with_what_the_mode_needs() -> None:
    plain, clusters = _manifest()["Deployment"]["spec"], _of_clusters()["Deployment"]["spec"]
    (container,), other = clusters["template"]["spec"]["containers"], plain["template"]["spec"]["containers"][0]
    assert parse_serve(container["args"], {}).pool_discovery == "mcs"
    container["args"] = [flag for flag in container["args"] if not flag.startswith("--pool-discovery")]
    container["resources"] = other["resources"]
    clusters["template"]["spec"]["automountServiceAccountToken"] = False
    assert clusters == plain


# ------------------------------------------------------------------------------------------------- DynamoDB


def test_the_policy_allows_what_the_service_calls_and_nothing_else() -> None:
    source = inspect.getsource(table).split("    # -- the table itself")[0]
    operations = set(re.findall(r'_(?:call|conditional)\(\s*"(\w+)"', source))
    actions = {"dynamodb:" + "".join(word.capitalize() for word in operation.split("_")) for operation in operations}
    (statement,) = json.loads((DEPLOY / "dynamodb-policy.json").read_text())["Statement"]
    assert set(statement["Action"]) == actions
    assert "dynamodb:Scan" not in actions


def test_every_file_in_deploy_is_named_in_its_readme() -> None:
    readme = (DEPLOY / "README.md").read_text()
    assert [path.name for path in DEPLOY.iterdir() if f"`{path.name}`" not in readme and path.name != "README.md"] == []
