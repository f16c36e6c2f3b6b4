"""A program, not a test: the discovery service with a loop that SIGUSR1 blocks, as a long computation in it would.

Run as `python blocking_service.py FLAGS`, the flags being those of `gdsvc serve`.
"""

import asyncio
import signal
import sys
import time

import uvloop

from gdsvc import logs
from gdsvc.cli import Service
from gdsvc.settings import parse_serve

BLOCK_SECS = 12.0  # within a lease of 15 s, but longer than what is left of it between two beats of 5 s


async def main() -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, time.sleep, BLOCK_SECS)
    settings = parse_serve(sys.argv[1:], {})
    logs.configure(settings.log_level, settings.log_format)
    await Service(settings).run()


if __name__ == "__main__":
    uvloop.run(main())
