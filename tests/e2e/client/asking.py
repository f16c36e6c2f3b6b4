"""What tests of requests ask with, and scripts of servers that answer them."""

import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gdsvc.client import DiscoveryApi, Options
from tests.e2e.client.scripted import Asked, Caller, Script


def options(*urls: str, **others: object) -> Options:
    return Options(urls, **({"connect_timeout_secs": 2.0, "request_timeout_secs": 2.0} | others))  # type: ignore[arg-type]


def unused_url() -> str:
    """A port at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


async def well(asked: Asked, caller: Caller) -> None:
    await caller.reply(200, json.dumps([asked.method, asked.target]).encode())


def status(code: int, body: bytes = b"{}", **headers: str) -> Script:
    async def script(_asked: Asked, caller: Caller) -> None:
        await caller.reply(code, body, **headers)

    return script


def raw(data: bytes) -> Script:
    async def script(_asked: Asked, caller: Caller) -> None:
        await caller.send(data)
        caller.close()

    return script


@asynccontextmanager
async def asking(*urls: str, **others: object) -> AsyncIterator[DiscoveryApi]:
    async with DiscoveryApi(options(*urls, **others)) as api:
        yield api
