"""`gdsvc register`: registers a pool, keeps its lease alive until told to end, and says when that goes wrong.

The first registration is asked for plainly, so that a refusal or a service that is not there ends the command; after
that the heartbeat of the client library goes on through everything.
"""

import asyncio
import time
from typing import Final

from gdsvc.client import DiscoveryApi, Heartbeat, HeartbeatState, HeartbeatStatus, Options
from gdsvc.commands.documents import Lease
from gdsvc.commands.failures import NoService
from gdsvc.commands.registration_file import RegistrationFile
from gdsvc.commands.renderings import Form, write_document
from gdsvc.commands.screen import Screen, say
from gdsvc.commands.service import ask, read
from gdsvc.commands.times import instant
from gdsvc.commands.visible import key_text


async def register(options: Options, file: RegistrationFile, form: Form, screen: Screen, *, deregister: bool) -> None:
    """Keeps the pool of `file` alive until cancelled. Raises Refused and NoService where that cannot begin.

    With `deregister` the pool is taken out at the end, and NoService says where that did not work.
    """
    async with DiscoveryApi(options) as api:
        answer = await ask(api, "POST", "/pools", body=file.body)
    lease = read(answer, Lease)
    key = file.registration.key
    shown = key_text(key.site_id, key.namespace, key.dgd_name)
    states: asyncio.Queue[HeartbeatState] = asyncio.Queue()
    heartbeat = Heartbeat(options, file.registration, on_state=states.put_nowait, deregister=deregister)
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
    """Says what goes wrong with the heartbeat, and when it is well again, until a fault of it stops it."""
    trouble = False
    while True:
        state = await states.get()
        if state.status is HeartbeatStatus.STOPPED:
            return  # leaving it raises the fault
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
}


def _terms(lease: Lease) -> str:
    return f"a heartbeat every {lease.heartbeat_interval_secs} s, a lease of {lease.lease_duration_secs} s"
