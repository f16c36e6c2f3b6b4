"""The client's directories as a backend: of a service in another process, on real sockets, on the test's own clock."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Generic, TypeVar

from gdsvc.client import DiscoveryApi, Options, RemotePoolDirectory, RemoteReplicaDirectory
from gdsvc.client.directory import RemoteDirectory
from gdsvc.client.heartbeat import Registration, encode, granted_lease, list_path, member_path
from gdsvc.model import Lease, PoolKey, PoolRegistration, RouterReplica

PROGRAM = Path(__file__).with_name("driven_service.py")
PATIENCE_SECS = 10.0
LEASE = Lease(5, 15)

Remote = TypeVar("Remote", bound="RemoteDirectory[Any, Any]")
Payload = TypeVar("Payload", PoolRegistration, RouterReplica)
Key = TypeVar("Key", PoolKey, str)


class Driven:
    """The process of driven_service.py."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def ask(self, command: str) -> str:
        """Its answer to one command."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()


@contextmanager
def driven_services() -> Iterator[Driven]:
    """Ends the process, which must have had nothing to complain of."""
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-X", "faulthandler", str(PROGRAM)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield Driven(process)
    finally:
        try:
            _, complaints = process.communicate(timeout=PATIENCE_SECS)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)  # on which it says where it is
            _, complaints = process.communicate()
    assert not complaints, complaints
    assert process.returncode == 0


class RemoteRegistrar(Generic[Payload, Key]):
    """Posts what it is told. A body stands for the payload that came with it, as it does for a store."""

    def __init__(self, api: DiscoveryApi) -> None:
        self.lease = LEASE
        self._api = api
        self._bodies: dict[bytes, Payload] = {}

    async def renew(self, body: bytes, source: str | None = None) -> bool:
        del source  # the service sees it
        payload = self._bodies.get(body)
        if payload is None:
            return False
        await self.register(payload, body)
        return True

    async def register(self, payload: Payload, body: bytes | None = None, source: str | None = None) -> Lease:
        del source
        answer = await self._api.request("POST", list_path(payload), body=encode(payload))
        assert answer.status == 200, answer
        if body is not None:
            self._bodies[body] = payload
        lease = granted_lease(answer.body)
        assert lease is not None
        return lease

    async def deregister(self, key: Key, source: str | None = None) -> bool:
        del source
        member: Registration = RouterReplica(key, "http://a") if isinstance(key, str) else PoolRegistration(key)
        self._bodies = {body: held for body, held in self._bodies.items() if member_path(held) != member_path(member)}
        answer = await self._api.request("DELETE", member_path(member))
        assert answer.status in (204, 404), answer
        return answer.status == 204


class RemoteStand(Generic[Remote, Payload, Key]):
    """A directory that follows a driven service, and a registrar that posts to it."""

    def __init__(self, driven: Driven, api: DiscoveryApi, directory: Remote, path: str) -> None:
        self.directory = directory
        self.registrar: RemoteRegistrar[Payload, Key] = RemoteRegistrar(api)
        self._driven = driven
        self._api = api
        self._path = path

    async def pass_time(self, secs: float) -> None:
        assert await asyncio.to_thread(self._driven.ask, f"pass {secs}") == "passed"
        await self.settle()

    async def settle(self) -> None:
        """Until the directory is where the service is: an entity tag begins like the id of the last event."""
        answer = await self._api.request("GET", self._path, headers=[("Accept-Encoding", "identity")])
        at = answer.headers["etag"].strip('"').removesuffix("-identity")
        async with asyncio.timeout(PATIENCE_SECS):
            while self.directory.position != at:  # noqa: ASYNC110 - directories do not tell of each step
                await asyncio.sleep(0.0005)


@asynccontextmanager
async def remote_pools(driven: Driven) -> AsyncIterator[RemoteStand[RemotePoolDirectory, PoolRegistration, PoolKey]]:
    async with _service(driven) as options, RemotePoolDirectory(options) as directory, DiscoveryApi(options) as api:
        yield RemoteStand(driven, api, directory, "/pools")


@asynccontextmanager
async def remote_replicas(driven: Driven) -> AsyncIterator[RemoteStand[RemoteReplicaDirectory, RouterReplica, str]]:
    async with _service(driven) as options, RemoteReplicaDirectory(options) as directory, DiscoveryApi(options) as api:
        yield RemoteStand(driven, api, directory, "/routers")


@asynccontextmanager
async def _service(driven: Driven) -> AsyncIterator[Options]:
    port = int(await asyncio.to_thread(driven.ask, "open"))
    try:
        yield Options((f"http://127.0.0.1:{port}",))
    finally:
        assert await asyncio.to_thread(driven.ask, "close") == "closed"
