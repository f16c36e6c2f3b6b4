"""The programs of the demo, each a process of its own: started, listened to until they serve, ended with their owner.

Decides how a program is run here and how it ends. What they are for is decided in run.
"""

import asyncio
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

import msgspec

from gdsvc.errors import GdsvcError

START_SECS: Final = 20.0
STOP_SECS: Final = 5.0  # above --shutdown-grace-secs: what still runs then is killed
LAST_LINES: Final = 5  # beside the events of a log, told where its program ends
# The command line outranks variables, and without its port a server would not be found.
_OURS: Final = ("--log-level", "info", "--log-format", "json", "--shutdown-grace-secs", "1")
_CHUNK: Final = 1 << 16


class DemoFailed(GdsvcError):
    """A part of the demo did not start, or has ended."""


class _Line(msgspec.Struct):
    """What is read of a line of a log."""

    event: str
    port: int = 0


class Program:
    """One process. `url` is where it serves, empty for one that is not asked."""

    def __init__(self, name: str, process: Process) -> None:
        self.name = name
        self.url = ""
        self._process = process
        self._said: deque[str] = deque(maxlen=LAST_LINES)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    async def ended(self) -> str:
        """Returns once the process has ended, with what it said last; reads its log meanwhile, or it would wait."""
        while await self._next_event() is not None:
            pass
        code = await self._process.wait()
        return " ".join(self._said) or (f"exit code {code}" if code >= 0 else f"signal {-code}")

    async def listens(self, hint: str) -> None:
        """Returns once the log has the port. Raises DemoFailed, with `hint`, where it ends before or says nothing."""
        with suppress(TimeoutError):
            async with asyncio.timeout(START_SECS):
                while (event := await self._next_event()) is not None:
                    if event.event.endswith(".listening"):
                        self.url = f"http://127.0.0.1:{event.port}"
                        return
        raise DemoFailed(f"{' '.join(self._said) or f'{self.name} did not start'}; {hint}")

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def wait(self) -> None:
        await self._process.wait()

    async def _next_event(self) -> _Line | None:
        """One event of its log; None at the end. What is no event, the reason why it ends, is kept."""
        while self._process.stderr is not None:
            try:
                data = await self._process.stderr.readline()
            except ValueError:  # longer than a stream holds
                continue
            if not data:
                break
            try:
                return msgspec.json.decode(data, type=_Line)
            except msgspec.MsgspecError:
                self._said.append(data.decode(errors="replace").strip())
        return None


class Programs:
    """All of them, ended on leaving. `environ` is what they inherit, less the flags of gdsvc that it holds."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = {name: value for name, value in environ.items() if not name.startswith("GDSVC_")}
        self._all: list[Program] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Ends all, the last one first; by force those that do not listen."""
        alive = [program for program in reversed(self._all) if program.is_running]
        for program in alive:
            program.signal(signal.SIGINT)  # SIGTERM would give load balancers two seconds to notice
        waiting = [asyncio.create_task(program.ended()) for program in alive]
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=STOP_SECS)
            for program in alive if late else ():
                program.signal(signal.SIGKILL)
            await asyncio.gather(*waiting)

    async def start(self, name: str, module: str, *arguments: str) -> Program:
        """Starts a module of this installation."""
        starting = asyncio.create_task(self._start(name, module, *arguments))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            await starting  # what is started by half could not be ended
            raise

    async def _start(self, name: str, module: str, *arguments: str) -> Program:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", module, *arguments),  # -P: never from the folder that the user is in
            env=self._environ,
            stdin=DEVNULL,
            stdout=DEVNULL,
            stderr=PIPE,
            limit=_CHUNK,
            start_new_session=True,  # Ctrl-C is ours to pass on
        )
        program = Program(name, process)
        self._all.append(program)
        return program

    async def start_server(self, command: str, port: int, flag: str, *flags: str) -> Program:
        """A server, once it listens; `flag` is what chooses its port in the demo. Raises DemoFailed."""
        name = f"gdsvc {command}"
        program = await self.start(name, "gdsvc", command, "--listen", f"127.0.0.1:{port}", *_OURS, *flags)
        await program.listens(f"{flag} chooses another port")
        return program
