"""A program, not a test: the discovery service with the periods of its watchers and of a load short enough to wait for.

Run as `python hasty_service.py FLAGS`, the flags being those of `gdsvc serve`.
"""

import sys

import uvloop

from gdsvc import cli, logs
from gdsvc.asgi import scheduling
from gdsvc.http import watch
from gdsvc.settings import parse_serve

KEEP_ALIVE_SECS = 1.0
TICK_SECS = 0.1
PEER_TIMEOUT_SECS = 0.9
STUCK_SECS = 2 * KEEP_ALIVE_SECS
CALM_SECS = 0.4


async def main() -> None:
    vars(watch).update(KEEP_ALIVE_SECS=KEEP_ALIVE_SECS, TICK_SECS=TICK_SECS, STUCK_SECS=STUCK_SECS)
    vars(scheduling)["CALM_SECS"] = CALM_SECS
    vars(cli)["PEER_TIMEOUT_SECS"] = PEER_TIMEOUT_SECS
    settings = parse_serve(sys.argv[1:], {})
    logs.configure(settings.log_level, settings.log_format)
    await cli.Service(settings).run()


if __name__ == "__main__":
    uvloop.run(main())
