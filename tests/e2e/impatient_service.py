"""A program, not a test: the discovery service with limits that a test can reach: a second for a head or an idle
connection, a second for a body, few bytes for all bodies that are arriving.

Run as `python impatient_service.py FLAGS`, the flags being those of `gdsvc serve`.
"""

import sys

import uvloop

from gdsvc import logs
from gdsvc.asgi import bodies, server
from gdsvc.cli import Service
from gdsvc.settings import parse_serve

HEAD_SECS = 1.0
BODY_SECS = 1.0
BUDGET_BYTES = 16 * 1024 * 1024


async def main() -> None:
    vars(server)["_IDLE_MILLISECONDS"] = int(HEAD_SECS * 1000)
    vars(bodies)["BUDGET_BYTES"] = BUDGET_BYTES
    settings = parse_serve(sys.argv[1:], {})
    logs.configure(settings.log_level, settings.log_format)
    service = Service(settings)
    service._bodies = bodies.Bodies(settings.max_body_bytes, secs=BODY_SECS)
    await service.run()


if __name__ == "__main__":
    uvloop.run(main())
