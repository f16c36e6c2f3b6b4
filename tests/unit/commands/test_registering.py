"""What `gdsvc register` does where its heartbeat ends by itself, which only a fault of ours can bring about."""

import asyncio
import io
from types import TracebackType
from typing import Any, Self

import pytest

from gdsvc.client import Answer, HeartbeatState, HeartbeatStatus, Options
from gdsvc.commands import registering
from gdsvc.commands.registration_file import RegistrationFile
from gdsvc.commands.renderings import Form
from gdsvc.commands.screen import Screen
from gdsvc.model import PoolKey, PoolRegistration

URL = "http://127.0.0.1:1"


class Faulty:
    """A heartbeat that ends by a fault."""

    state = HeartbeatState(HeartbeatStatus.STOPPED, "a fault of the client")

    def __init__(self, *_: object, on_state: Any, **__: object) -> None:
        self._on_state = on_state

    async def __aenter__(self) -> Self:
        self._on_state(self.state)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: Any, trace: TracebackType | None) -> None:
        raise ZeroDivisionError("the fault")


async def test_a_fault_of_the_heartbeat_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask(*_: object, **__: object) -> Answer:
        return Answer(200, {}, b'{"heartbeat_interval_secs":1,"lease_duration_secs":3}', URL)

    monkeypatch.setattr(registering, "ask", ask)
    monkeypatch.setattr(registering, "Heartbeat", Faulty)
    registration = PoolRegistration(PoolKey("s", "n", "p"))
    with pytest.raises(ZeroDivisionError):
        async with asyncio.timeout(10):
            await registering.register(
                Options((URL,)),
                RegistrationFile(b"{}", registration),
                Form.TABLE,
                Screen(io.BytesIO()),
                deregister=False,
            )
