"""A program, not a test: the discovery service that calls a shared store stale after seconds, not a minute, waits no
longer than a second to ask again, and looks for new keys every second.

Run as `python impatient_storage.py FLAGS`, the flags being those of `gdsvc serve`. KUBECONFIG is honoured.
"""

import os
import sys

import uvloop

from gdsvc import cli, logs
from gdsvc.backends.dynamodb import credentials, reader
from gdsvc.backends.shared import reading
from gdsvc.kube import backoff
from gdsvc.settings import parse_serve

STALE_SECS = 4.0
LONGEST_WAIT_SECS = 1.0


async def main() -> None:
    vars(reading)["STALE_SECS"] = STALE_SECS
    vars(backoff)["LONGEST_SECS"] = LONGEST_WAIT_SECS
    for module in (reader, credentials):
        vars(module)["LONGEST_WAIT_SECS"] = LONGEST_WAIT_SECS
    settings = parse_serve(sys.argv[1:], {"KUBECONFIG": os.environ.get("KUBECONFIG", "")})
    logs.configure(settings.log_level, settings.log_format)
    await cli.Service(settings).run()


if __name__ == "__main__":
    uvloop.run(main())
