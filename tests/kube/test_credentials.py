"""Credentials of every kind, rotated, and never shown when something is wrong with them."""

import base64
import datetime as dt
import logging
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes_asyncio.config import incluster_config

from gdsvc.kube.credentials import Credentials, NoCredentials

SECRET = "s3cret-t0ken"


class Now:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


def kubeconfig(tmp_path: Path, user: dict[str, Any], **cluster: Any) -> str:
    """Writes one and names it, as KUBECONFIG would."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://10.0.0.1:6443/", **cluster}}],
        "users": [{"name": "u", "user": user}],
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return str(path)


async def test_a_token_of_the_kubeconfig_is_sent(tmp_path: Path) -> None:
    credentials = await Credentials.load(kubeconfig(tmp_path, {"token": SECRET}))
    assert await credentials.authorization() == f"Bearer {SECRET}"
    assert credentials.settings.host == "https://10.0.0.1:6443"


async def test_a_token_file_that_rotates_is_read_again_within_a_minute(tmp_path: Path) -> None:
    token, now = tmp_path / "token", Now()
    token.write_text("one\n")
    credentials = await Credentials.load(kubeconfig(tmp_path, {"tokenFile": str(token)}), now)
    assert await credentials.authorization() == "Bearer one"
    token.write_text("two\n")
    now.at = 59.9
    assert await credentials.authorization() == "Bearer one"
    now.at = 60.0
    assert await credentials.authorization() == "Bearer two"


async def test_a_token_file_that_is_away_leaves_the_old_token_until_it_is_refused(tmp_path: Path) -> None:
    token, now = tmp_path / "token", Now()
    token.write_text("one")
    credentials = await Credentials.load(kubeconfig(tmp_path, {"tokenFile": str(token)}), now)
    token.unlink()
    now.at = 60.0
    assert await credentials.authorization() == "Bearer one"
    with pytest.raises(NoCredentials, match="No such file"):
        await credentials.renew()


async def test_a_token_that_was_refused_is_read_again_at_once(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("one")
    credentials = await Credentials.load(kubeconfig(tmp_path, {"tokenFile": str(token)}), Now())
    token.write_text("two")
    await credentials.renew()
    assert await credentials.authorization() == "Bearer two"


def plugin(tmp_path: Path, body: str) -> dict[str, Any]:
    """A user with an exec plugin that runs `body` and counts its runs in the file `runs`."""
    script = tmp_path / "plugin.py"
    script.write_text(f"import json\nopen({str(tmp_path / 'runs')!r}, 'a').write('x')\n{body}")
    version = "client.authentication.k8s.io/v1"
    return {"exec": {"command": sys.executable, "args": [str(script)], "apiVersion": version}}


def granting(**status: str) -> str:
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}
    return f"print(json.dumps({credential!r}))"


async def test_a_plugin_without_an_end_runs_again_only_after_a_401(tmp_path: Path) -> None:
    now = Now()
    credentials = await Credentials.load(kubeconfig(tmp_path, plugin(tmp_path, granting(token=SECRET))), now)
    now.at = 3600.0
    assert await credentials.authorization() == f"Bearer {SECRET}"
    assert (tmp_path / "runs").read_text() == "x"
    await credentials.renew()
    assert (tmp_path / "runs").read_text() == "xx"


async def test_a_plugins_token_is_renewed_before_its_end(tmp_path: Path) -> None:
    now, ended = Now(), granting(token=SECRET, expirationTimestamp="2001-01-01T00:00:00Z")
    credentials = await Credentials.load(kubeconfig(tmp_path, plugin(tmp_path, ended)), now)
    now.at = 60.0
    await credentials.authorization()
    assert (tmp_path / "runs").read_text() == "xx"


async def test_a_plugins_token_that_lasts_is_kept_until_it_is_refused(tmp_path: Path) -> None:
    now, lasting = Now(), granting(token=SECRET, expirationTimestamp="2999-01-01T00:00:00Z")
    credentials = await Credentials.load(kubeconfig(tmp_path, plugin(tmp_path, lasting)), now)
    now.at = 3600.0
    await credentials.authorization()
    assert (tmp_path / "runs").read_text() == "x"
    await credentials.renew()
    assert (tmp_path / "runs").read_text() == "xx"


async def test_a_plugin_that_fails_is_named_and_what_it_wrote_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    failing = f"import sys; sys.exit('token {SECRET} has expired')"
    with pytest.raises(NoCredentials, match="exec: process returned 1") as caught:
        await Credentials.load(kubeconfig(tmp_path, plugin(tmp_path, failing)))
    assert SECRET not in str(caught.value) + caplog.text


BROKEN: dict[str, object] = {
    "no YAML": "users: [{token: " + SECRET,
    "a list": [SECRET],
    "nothing": None,
    "text": SECRET,
    "no contexts": {"users": [{"name": "u", "user": {"token": SECRET}}]},
    "a user one level too high": {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://10.0.0.1"}}],
        "users": [{"name": "u", "token": SECRET}],
    },
    "no such context": {
        "current-context": "elsewhere",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://10.0.0.1"}}],
        "users": [{"name": "u", "user": {"token": SECRET}}],
    },
    "no such cluster": {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "elsewhere", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://10.0.0.1"}}],
        "users": [{"name": "u", "user": {"token": SECRET}}],
    },
    "no server": {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {}}],
        "users": [{"name": "u", "user": {"token": SECRET}}],
    },
    "a user without a name": {"users": [{"user": {"token": SECRET}}], "contexts": [], "clusters": []},
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_kubeconfig_is_one_sentence_without_its_secrets(name: str, tmp_path: Path) -> None:
    path, config = tmp_path / "kubeconfig", BROKEN[name]
    path.write_text(config if isinstance(config, str) else yaml.safe_dump(config))
    with pytest.raises(NoCredentials, match="cannot load the credentials of KUBECONFIG") as caught:
        await Credentials.load(str(path))
    assert SECRET not in str(caught.value)


async def test_a_fault_in_a_kubeconfig_is_named(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(BROKEN["a user one level too high"]))
    with pytest.raises(NoCredentials, match="Expected key user in"):
        await Credentials.load(str(path))


async def test_a_kubeconfig_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NoCredentials):
        await Credentials.load(str(tmp_path / "missing"))


@pytest.fixture
def service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of a pod's service account, and the variables that name the API server."""
    (tmp_path / "token").write_text(SECRET + "\n")
    (tmp_path / "ca.crt").write_text("a certificate")
    monkeypatch.setitem(os.environ, "KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setitem(os.environ, "KUBERNETES_SERVICE_PORT", "443")
    return tmp_path


async def test_a_pod_uses_its_service_account(service_account: Path) -> None:
    credentials = await Credentials.load(None, service_account=service_account)
    assert credentials.settings.host == "https://[fd00::1]:443"
    assert credentials.settings.ssl_ca_cert == str(service_account / "ca.crt")
    assert await credentials.authorization() == f"Bearer {SECRET}"


async def test_a_pods_token_that_rotates_is_read_again_and_one_that_is_away_is_kept(
    service_account: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(incluster_config, "TOKEN_REFRESH_PERIOD", dt.timedelta(0))
    credentials = await Credentials.load(None, service_account=service_account)
    (service_account / "token").write_text("two")
    assert await credentials.authorization() == "Bearer two"
    (service_account / "token").unlink()
    assert await credentials.authorization() == "Bearer two"


async def test_outside_a_pod_the_service_account_is_an_error(
    service_account: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(os.environ, "KUBERNETES_SERVICE_HOST")
    with pytest.raises(NoCredentials, match="Service host/port is not set"):
        await Credentials.load(None, service_account=service_account)


async def test_a_user_with_a_password_is_sent_as_basic(tmp_path: Path) -> None:
    credentials = await Credentials.load(kubeconfig(tmp_path, {"username": "u", "password": SECRET}))
    encoded = base64.b64encode(f"u:{SECRET}".encode()).decode()
    assert await credentials.authorization() == f"Basic {encoded}"
