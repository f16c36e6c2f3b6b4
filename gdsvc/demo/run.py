"""`gdsvc demo`: starts the programs, says where they are and what to try, and tells what becomes of the pools."""

import asyncio
import logging
import signal
import sys
from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, assert_never

import aiohttp
import uvloop

from gdsvc.client import Options, RemotePoolDirectory
from gdsvc.demo.pool import MODEL
from gdsvc.demo.programs import START_SECS, DemoFailed, Program, Programs
from gdsvc.pool_discovery.watch import Removed, Resync, Upserted
from gdsvc.tasks import cancelled

NAMES: Final = ("east", "west", "south", "north", "coast", "hills", "isles", "plain")
HEARTBEAT_SECS, LEASE_SECS = 1, 3
POLL_SECS: Final = 0.05

Say = Callable[[str], None]

DESCRIPTION: Final = """\
A fleet to try on this machine: a discovery service, mock pools that register and make sentences up, and the Global
Frontend before them. Says where they are, what to ask, and what becomes of the pools; ends them all on Ctrl-C."""
EPILOG: Final = """\
exit codes: 0 it was interrupted; 1 a part did not start, or the service or the frontend has ended; 2 the command line
is wrong"""

WELCOME: Final = """
  discovery service   {discovery}   (status page: {discovery}/ui)
  Global Frontend     {frontend}
  pools               {pools}

ask, again and again; the pools take turns:

  curl -N {frontend}/v1/chat/completions -H 'content-type: application/json' \\
    -d '{{"model": "{model}", "stream": true, "messages": [{{"role": "user", "content": "hello"}}]}}'

kill a pool without warning, and ask on: what would go there is sent to another one, and the pool leaves the list when
its lease of {lease} s ends:

  kill -9 {victim}

look at it:

  {gdsvc} pools --url {discovery}
  curl {frontend}/pools

Ctrl-C ends it all. What happens from now on:

"""


def demo(argv: Sequence[str], say: Say, environ: Mapping[str, str]) -> int:
    """Runs the demo until it is interrupted; the exit code."""
    parser = ArgumentParser(
        prog="gdsvc demo", description=DESCRIPTION, epilog=EPILOG, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=_port, default=8000, metavar="N", help="of the frontend; 0: any (default: 8000)")
    parser.add_argument(
        "--discovery-port", type=_port, default=8080, metavar="N", help="of the service; 0: any (default: 8080)"
    )
    parser.add_argument(
        "--pools", type=_count, default=3, metavar="N", help=f"how many, from 2 to {len(NAMES)} (default: 3)"
    )
    flags = parser.parse_args(argv)
    logging.getLogger("gdsvc.client").addHandler(logging.NullHandler())  # what it has to say is told here
    try:
        uvloop.run(_until_stopped(Demo(say, flags.port, flags.discovery_port, NAMES[: flags.pools]), environ))
    except DemoFailed as error:
        sys.stderr.write(f"gdsvc demo: {error}\n")
        return 1
    return 0


def _port(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 5 or int(text) > 65535:
        raise ArgumentTypeError(f"expected a port from 0 to 65535, got {text[:80]!r}")
    return int(text)


def _count(text: str) -> int:
    if text not in map(str, range(2, len(NAMES) + 1)):  # of one, none would be left to take over
        raise ArgumentTypeError(f"expected a number from 2 to {len(NAMES)}, got {text[:80]!r}")
    return int(text)


async def _until_stopped(played: "Demo", environ: Mapping[str, str]) -> None:
    """Plays until a signal comes, be it the terminal's hangup, or until a part fails, which raises DemoFailed."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with Programs(environ) as programs:
        playing, stopping = tasks = asyncio.create_task(played.play(programs)), asyncio.create_task(stop.wait())
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not stopping.done():
                await playing
        finally:
            await cancelled(tasks)


class Demo:
    """What is shown. `say` tells the user."""

    def __init__(self, say: Say, port: int, discovery_port: int, names: Sequence[str]) -> None:
        self._say = say
        self._port = port
        self._discovery_port = discovery_port
        self._names = names
        self._listed: set[str] = set()
        self._has_greeted = False

    async def play(self, programs: Programs) -> None:
        """Starts everything, then tells what happens. Never returns; raises DemoFailed, and what `say` raises."""
        self._say(f"starting a discovery service, {len(self._names)} mock pools and the Global Frontend …\n")
        lease = ("--heartbeat-interval-secs", str(HEARTBEAT_SECS), "--lease-duration-secs", str(LEASE_SECS))
        service = await programs.start_server("serve", self._discovery_port, "--discovery-port", *lease)
        pools = [await programs.start(name, "gdsvc.demo.pool", name, service.url) for name in self._names]
        frontend = await programs.start_server("frontend", self._port, "--port", "--discovery-url", service.url)
        async with RemotePoolDirectory(Options((service.url,))) as directory:
            tasks = [
                asyncio.create_task(self._tell_list(directory)),
                asyncio.create_task(self._greet(service, frontend, pools)),
                *(asyncio.create_task(self._tell_end(pool)) for pool in pools),
                *(asyncio.create_task(_tell_fault(server)) for server in (service, frontend)),
            ]
            try:
                await asyncio.gather(*tasks)
            finally:
                await cancelled(tasks)

    async def _greet(self, service: Program, frontend: Program, pools: Sequence[Program]) -> None:
        """Says what to try, once all of it works."""
        try:
            async with asyncio.timeout(START_SECS), aiohttp.ClientSession() as session:
                while not (self._listed.issuperset(self._names) and await _is_ready(session, frontend.url)):  # noqa: ASYNC110 - of no event
                    await asyncio.sleep(POLL_SECS)
        except TimeoutError:
            raise DemoFailed(f"the pools did not register within {START_SECS:.0f} s") from None
        text = WELCOME.format(
            discovery=service.url,
            frontend=frontend.url,
            pools=", ".join(f"{pool.name} (pid {pool.pid})" for pool in pools),
            victim=pools[0].pid,
            model=MODEL,
            lease=LEASE_SECS,
            gdsvc=_this_program(),
        )
        self._has_greeted = True
        self._say(text)

    async def _tell_list(self, directory: RemotePoolDirectory) -> None:
        """Tells who comes and leaves."""
        async for event in directory.list_and_watch():
            match event:
                case Resync(snapshot):
                    self._listed = {item.key.dgd_name for item in snapshot.items}
                case Upserted(item):
                    self._listed.add(item.key.dgd_name)
                    self._tell(f"{item.key.dgd_name} is in the list")
                case Removed(key):
                    self._listed.discard(key.dgd_name)
                    self._tell(f"{key.dgd_name} has left the list")
                case _:
                    assert_never(event)

    async def _tell_end(self, pool: Program) -> None:
        last_words = await pool.ended()
        if not self._has_greeted:
            raise DemoFailed(f"the pool {pool.name} did not start: {last_words}")
        self._tell(f"the process of {pool.name} (pid {pool.pid}) has ended; requests go to the others")

    def _tell(self, what: str) -> None:
        if self._has_greeted:
            self._say(f"  {what}\n")


async def _tell_fault(server: Program) -> None:
    last_words = await server.ended()
    raise DemoFailed(f"{server.name} (pid {server.pid}) has ended: {last_words}")


async def _is_ready(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(f"{url}/ready") as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False


def _this_program() -> str:
    """How the user called it: in a virtual environment that is not activated `gdsvc` alone would not be found."""
    program = Path(sys.argv[0])
    return str(program) if program.name == "gdsvc" else "gdsvc"
