"""`gdsvc register`: registers a pool, keeps its lease alive until told to end, and says when that goes wrong.

The first registration is asked for plainly, so that a refusal or a service that is not there ends the command; after
that the heartbeat of the client library goes on through everything.
"""

import asyncio
import sys
import time
from pathlib import Path
from typing import Final

from gdsvc.client import DiscoveryApi, Heartbeat, HeartbeatState, HeartbeatStatus, InvalidOptions, Options
from gdsvc.commands.arguments import Register
from gdsvc.commands.documents import Lease
from gdsvc.commands.failures import NoService, Refused, Usage
from gdsvc.commands.renderings import Form, write_document
from gdsvc.commands.screen import Screen, say
from gdsvc.commands.service import ask, read, usage
from gdsvc.commands.times import instant
from gdsvc.commands.visible import key_text
from gdsvc.errors import Invalid, NotJson
from gdsvc.model import PoolRegistration, decode_registration

MOST_FILE_BYTES: Final = 16 * 1024 * 1024  # the service takes 2 MiB unless told otherwise


async def register(options: Options, command: Register, form: Form, screen: Screen) -> None:
    """Keeps the pool of the file alive until cancelled. Raises Usage, Refused and NoService where it cannot begin."""
    name, body = _content(command.path)
    registration = _registration(name, body)
    try:
        async with DiscoveryApi(options) as api:
            answer = await ask(api, "POST", "/pools", body=body)
    except InvalidOptions as fault:  # entering reads the TLS files
        raise usage(fault) from None
    lease = read(answer, Lease)
    states: asyncio.Queue[HeartbeatState] = asyncio.Queue()
    heartbeat = Heartbeat(options, registration, on_state=states.put_nowait, deregister=command.deregister)
    shown = _shown(registration)
    try:
        async with heartbeat:
            if form is Form.TABLE:
                screen.write(f"{shown} is registered at {answer.url}: {_terms(lease)}\n")
            else:
                write_document(screen, form, answer.body)
            await _tell(states, shown)
    except asyncio.CancelledError:
        if heartbeat.state.reason is not None:
            raise NoService(f"{shown} could not be taken out: {heartbeat.state.reason}") from None
        raise


async def _tell(states: asyncio.Queue[HeartbeatState], shown: str) -> None:
    """Says what goes wrong with the heartbeat, and when it is well again; for ever."""
    trouble = False
    while True:
        state = await states.get()
        well = state.status in (HeartbeatStatus.STARTING, HeartbeatStatus.REGISTERED) and state.reason is None
        if well and trouble:
            say(f"{instant(time.time())}  {shown} is registered again")
        elif not well:
            say(f"{instant(time.time())}  {shown} {_MEANINGS[state.status]}: {state.reason}")
        trouble = not well


_MEANINGS: Final = {
    HeartbeatStatus.STARTING: "is not renewed",
    HeartbeatStatus.REGISTERED: "is registered",
    HeartbeatStatus.RETRYING: "is not renewed, its lease still holds",
    HeartbeatStatus.LAPSED: "is not renewed, its lease has ended",
    HeartbeatStatus.REFUSED: "is refused",
    HeartbeatStatus.STOPPED: "is left",
}


def _terms(lease: Lease) -> str:
    return f"a heartbeat every {lease.heartbeat_interval_secs} s, a lease of {lease.lease_duration_secs} s"


def _shown(registration: PoolRegistration) -> str:
    key = registration.key
    return key_text(key.site_id, key.namespace, key.dgd_name)


def _content(path: Path | None) -> tuple[str, bytes]:
    """What the file, or standard input, is called and holds. Raises Usage."""
    name = "standard input" if path is None else str(path)
    try:
        if path is None:
            content = sys.stdin.buffer.read(MOST_FILE_BYTES + 1)
        else:
            with path.open("rb") as file:
                content = file.read(MOST_FILE_BYTES + 1)
    except OSError as error:
        raise Usage(f"-f {name}: {error.strerror or 'cannot be read'}") from None
    if len(content) > MOST_FILE_BYTES:
        raise Usage(f"-f {name}: expected at most {MOST_FILE_BYTES} bytes")
    return name, content


def _registration(name: str, body: bytes) -> PoolRegistration:
    """What the service will make of `body`. Raises Refused with what it would say."""
    try:
        return decode_registration(body)
    except (NotJson, Invalid) as fault:
        raise Refused(f"{name}: {fault}") from None
