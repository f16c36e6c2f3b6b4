"""Credentials that soon end, of sources that are slow to give new ones; a server that refuses a key past its end."""

import asyncio
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from gdsvc.backends.dynamodb.patience import Failed
from gdsvc.backends.dynamodb.table import opened
from tests.dynamodb.faulty_table import FaultyTable
from tests.dynamodb.ministack import CREDENTIALS
from tests.dynamodb.test_service import pool, storage
from tests.e2e import impatient_storage
from tests.e2e.clusters import eventually
from tests.e2e.process import Serve, Service, Tell

pytestmark = [pytest.mark.dynamodb, pytest.mark.timeout(120)]

LATENCY_SECS, LIFE_SECS = 3.0, 12.0
RENEWALS = 2  # of each source
SLOWEST_SECS = 0.5
SECRET = "secret-that-no-log-may-hold"
KEYLESS = {name: value for name, value in CREDENTIALS.items() if "KEY" not in name}
FLAGS = ("--heartbeat-interval-secs", "2", "--lease-duration-secs", "6", "--dynamodb-poll-interval-secs", "1")
IMPATIENT = (sys.executable, "-W", "error", str(Path(impatient_storage.__file__)))

STS_ANSWER = """\
<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult>
<Credentials><AccessKeyId>{AccessKeyId}</AccessKeyId><SecretAccessKey>{SecretAccessKey}</SecretAccessKey>
<SessionToken>{Token}</SessionToken><Expiration>{Expiration}</Expiration></Credentials>
<AssumedRoleUser><Arn>arn:aws:sts::123456789012:assumed-role/r/s</Arn><AssumedRoleId>r:s</AssumedRoleId>
</AssumedRoleUser></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"""


class KeyGiver:
    """Gives keys of LIFE_SECS after LATENCY_SECS: to a GET as the endpoint of a container, to a POST as AWS's STS."""

    def __init__(self, name: str, life_secs: float) -> None:
        self.url = ""
        self.ends: dict[str, float] = {}  # of each key given, in Unix seconds
        self.asked_with: list[str] = []  # bodies
        self._name = name
        self._life_secs = life_secs

    def give(self) -> dict[str, str]:
        """The next key."""
        key, ends_at = f"{self._name}{len(self.ends)}", int(time.time() + self._life_secs)
        self.ends[key] = ends_at
        told = datetime.fromtimestamp(ends_at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return {"AccessKeyId": key, "SecretAccessKey": SECRET, "Token": SECRET, "Expiration": told}


@contextmanager
def key_giver(name: str, life_secs: float = LIFE_SECS) -> Iterator[KeyGiver]:
    """Serves until left."""
    giver = KeyGiver(name, life_secs)

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(json.dumps)

        def do_POST(self) -> None:
            giver.asked_with.append(self.rfile.read(int(self.headers["Content-Length"])).decode())
            self._answer(lambda given: STS_ANSWER.format(**given))

        def _answer(self, written: Callable[[Mapping[str, str]], str]) -> None:
            time.sleep(LATENCY_SECS)  # what is tested: keys that are slow to come
            body = written(giver.give()).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(OSError):  # who asked may have stopped meanwhile
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    giver.url = f"http://127.0.0.1:{server.server_port}/"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield giver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def web_identity(giver: KeyGiver, token: Path) -> dict[str, str]:
    """The environment that an EKS pod has."""
    return {
        "AWS_ENDPOINT_URL_STS": giver.url,
        "AWS_WEB_IDENTITY_TOKEN_FILE": str(token),
        "AWS_ROLE_ARN": "arn:aws:iam::123456789012:role/r",
    }


def slowest_beat(services: Sequence[Service]) -> float:
    """In seconds; each must be answered 200."""
    slowest = 0.0
    for service in services:
        began_at = time.monotonic()
        assert service.post("/pools", pool("m")).status == 200
        slowest = max(slowest, time.monotonic() - began_at)
    return slowest


def no_call_failed(service: Service) -> bool:
    return not any(count for name, count in service.samples().items() if name.startswith("gdsvc_store_errors"))


def test_no_heartbeat_waits_for_keys_that_soon_end_and_no_call_bears_one_that_has(
    serve: Serve, shared_table: str, proxy: FaultyTable, tmp_path: Path, tell: Tell
) -> None:
    token = tmp_path / "token"
    token.write_text("first-token")
    with key_giver("container") as container, key_giver("sts") as sts:
        givers = (container, sts)
        proxy.expired = lambda key: not any(giver.ends.get(key, 0.0) > time.time() for giver in givers)
        environs = ({"AWS_CONTAINER_CREDENTIALS_FULL_URI": container.url}, web_identity(sts, token))
        services = [
            serve(*storage(shared_table, proxy.url, *FLAGS), "--log-level", "debug", environ=KEYLESS | environ)
            for environ in environs
        ]
        for service in services:
            eventually(lambda service=service: service.get("/ready").status == 200)  # type: ignore[misc]
        token.write_text("second-token")
        slowest, until = 0.0, time.monotonic() + 60.0
        given = {giver: len(giver.ends) + RENEWALS for giver in givers}
        while any(len(giver.ends) < given[giver] for giver in givers):
            assert time.monotonic() < until
            slowest = max(slowest, slowest_beat(services))
            time.sleep(0.05)  # heartbeats all the time, but no load
        tell(f"slowest heartbeat {1000 * slowest:.0f} ms; calls by key {dict(proxy.keys)}")
        assert slowest < SLOWEST_SECS
        assert all(no_call_failed(service) for service in services)
        assert all(sum(key in giver.ends for key in proxy.keys) >= RENEWALS for giver in givers), "each in its time"
        assert "WebIdentityToken=second-token" in sts.asked_with[-1]
        assert not any(SECRET in service.log for service in services)


def test_keys_in_a_file_that_is_replaced_are_used_before_the_old_ones_end(
    serve: Serve, shared_table: str, proxy: FaultyTable, tmp_path: Path
) -> None:
    file, aside = tmp_path / "credentials", tmp_path / "aside"

    def replace(key: str) -> None:
        aside.write_text(f"[default]\naws_access_key_id = {key}\naws_secret_access_key = {SECRET}\n")
        aside.rename(file)

    replace("old")
    environ = KEYLESS | {"AWS_SHARED_CREDENTIALS_FILE": str(file)}
    service = serve(*storage(shared_table, proxy.url, *FLAGS), command=IMPATIENT, environ=environ)
    eventually(lambda: service.get("/ready").status == 200)
    assert slowest_beat([service]) < SLOWEST_SECS
    replace("new")
    until = time.monotonic() + 20.0
    while not proxy.keys["new"]:
        assert time.monotonic() < until
        assert slowest_beat([service]) < SLOWEST_SECS
    proxy.expired = lambda key: key == "old"
    file.unlink()  # as between two keys of some rotations: what there was stays
    for _ in range(20):
        assert slowest_beat([service]) < SLOWEST_SECS
        time.sleep(0.1)  # longer than it takes to look for keys again
    assert no_call_failed(service)
    assert SECRET not in service.log


@pytest.mark.loops("uvloop")
async def test_sts_is_asked_in_the_region_of_the_table_and_that_it_does_not_answer_is_told_by_the_first_call(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    heads: list[bytes] = []

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readline())
        writer.close()

    (tmp_path / "token").write_text("some-token")
    async with await asyncio.start_server(hear, "127.0.0.1", 0) as proxy:
        environ = web_identity(KeyGiver("none", 0.0), tmp_path / "token")
        del environ["AWS_ENDPOINT_URL_STS"]
        proxy_url = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
        for name in [name for name in os.environ if name.startswith("AWS_") or name.lower().endswith("_proxy")]:
            monkeypatch.delenv(name)
        for name, value in (KEYLESS | environ | {"HTTPS_PROXY": proxy_url, "AWS_MAX_ATTEMPTS": "1"}).items():
            monkeypatch.setenv(name, value)
        async with opened("pools", "eu-west-1", "http://127.0.0.1:1") as table:
            assert {head.split()[1] for head in heads} == {b"sts.eu-west-1.amazonaws.com:443"}
            with pytest.raises(Failed):
                await table.describe()
