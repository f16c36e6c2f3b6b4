"""The first sync of a large list by a real `gdsvc serve`, while pools heartbeat: who expires, how long beats wait."""

import asyncio
import json
import os
import re
import sys
import time
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from bench.clusters.sides import begin
from bench.processes import Server, StartFailed, cpu_seconds, free_port, serving

POOLS = 1_000
CONNECTIONS = 20
ROUND_SECS = 2.0  # in which every pool beats once, evenly spread: a stall is seen by the beats that wait
LEASE_SECS = 15
AFTERWARDS_SECS = LEASE_SECS + 3.0  # long enough for a lease to end that a stall had kept from being renewed


class Beaten(msgspec.Struct, frozen=True):
    """`longest_secs` from a beat's sending to its answer, before the list was let go and since."""

    expired: int
    stalls: int
    beats: int
    longest_before_secs: float
    longest_secs: float
    sync_secs: float
    service_cpu_secs: float


class SyncFailed(Exception):
    """The service did not take the list in, or refused a beat."""


def measured(core: int, slices: int, endpoints: int) -> Beaten:
    """Everything else runs on the other core. Raises SyncFailed, StartFailed."""
    api_port, port = free_port(), free_port()
    api = [sys.executable, "-m", "bench.clusters.api_server", *map(str, (api_port, slices, endpoints)), "held"]
    other = max(os.sched_getaffinity(0))
    with TemporaryDirectory() as name, serving(api, api_port, other):
        config = Path(name) / "kubeconfig"
        config.write_text(json.dumps(_kubeconfig(api_port)))
        command = ["env", f"KUBECONFIG={config}", sys.executable, "-m", "gdsvc", "serve", "--pool-discovery", "mcs"]
        command += ["--listen", f"127.0.0.1:{port}", "--log-level", "warn", "--shutdown-grace-secs", "0"]
        with serving(command, port, core) as server:
            return asyncio.run(_run(server, api_port, slices))


async def _run(server: Server, api_port: int, slices: int) -> Beaten:
    latencies: list[tuple[float, float]] = []  # when sent, how long it took
    async with asyncio.TaskGroup() as group:
        beating = [group.create_task(_beat(server.port, number, latencies)) for number in range(CONNECTIONS)]
        await asyncio.sleep(2 * ROUND_SECS)
        cpu, released_at = cpu_seconds(server.group), time.monotonic()
        await asyncio.to_thread(begin, api_port, "/release")
        synced_at = await _synced(server.port)
        cpu = cpu_seconds(server.group) - cpu
        await asyncio.sleep(AFTERWARDS_SECS)
        for task in beating:
            task.cancel()
    if (listed := await asyncio.to_thread(_listed, server.port)) != slices:
        raise SyncFailed(f"the service lists {listed} pools of {slices}")
    expired = await asyncio.to_thread(_counter, server.port, "expired")
    stalls = await asyncio.to_thread(_counter, server.port, "stalls")
    before = max(
        took for sent_at, took in latencies if sent_at - latencies[0][0] > ROUND_SECS and sent_at < released_at
    )
    since = max(took for sent_at, took in latencies if sent_at + took > released_at)
    return Beaten(expired, stalls, len(latencies), before, since, synced_at - released_at, cpu)


async def _beat(port: int, first: int, latencies: list[tuple[float, float]]) -> None:
    """Beats for every CONNECTIONS-th pool on one connection, round and round."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        pools = range(first, POOLS, CONNECTIONS)
        await asyncio.sleep(ROUND_SECS * first / POOLS)
        due_at = time.monotonic()
        while True:
            for number in pools:
                await asyncio.sleep(max(0.0, due_at - time.monotonic()))
                due_at += ROUND_SECS / len(pools)
                sent_at = time.monotonic()
                writer.write(_request(number))
                head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"(?i)content-length: *(\d+)", head)
                await reader.readexactly(int(length[1]) if length else 0)
                if not head.startswith(b"HTTP/1.1 200"):
                    raise SyncFailed(f"a beat was answered {head[:40]!r}")
                latencies.append((sent_at, time.monotonic() - sent_at))
    finally:
        writer.close()


def _request(number: int) -> bytes:
    key = {"site_id": "east", "namespace": "dynamo", "dgd_name": f"pool-{number}"}
    body = json.dumps({"key": key, "model": "m", "frontends": ["http://10.0.0.10:8000"]}).encode()
    head = b"POST /pools HTTP/1.1\r\nHost: b\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body


async def _synced(port: int) -> float:
    give_up_at = time.monotonic() + 60
    while time.monotonic() < give_up_at:
        status, _ = await asyncio.to_thread(_get, port, "/ready")
        if status == 200:
            return time.monotonic()
        await asyncio.sleep(0.05)
    raise SyncFailed("the service was not ready within a minute")


def _listed(port: int) -> int:
    return len(json.loads(_get(port, "/pools")[1])["pools"])


def _counter(port: int, name: str) -> int:
    found = re.search(rb"^gdsvc_%b_total (\S+)" % name.encode(), _get(port, "/metrics")[1], re.MULTILINE)
    if found is None:
        raise StartFailed(f"the service has no counter {name}")
    return int(float(found[1]))


def _get(port: int, path: str) -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path)
    response = connection.getresponse()
    answer = response.status, response.read()
    connection.close()
    return answer


def _kubeconfig(port: int) -> dict[str, object]:
    named = {"name": "bench", "context": {"cluster": "bench", "user": "bench"}}
    cluster = {"name": "bench", "cluster": {"server": f"http://127.0.0.1:{port}"}}
    user: dict[str, object] = {"name": "bench", "user": {}}
    kind = {"apiVersion": "v1", "kind": "Config", "current-context": "bench"}
    return {**kind, "contexts": [named], "clusters": [cluster], "users": [user]}
