"""A program, not a test: the discovery service that soon calls a view stale, and never waits long to ask again.

Run as `python impatient_views.py FLAGS`, the flags being those of `gdsvc serve`. KUBECONFIG is honoured.
"""

import os
import sys

import uvloop

from gdsvc import cli, logs
from gdsvc.kube import backoff, freshness
from gdsvc.settings import parse_serve

STALE_AFTER_SECS = 3.0
LONGEST_WAIT_SECS = 1.0


async def main() -> None:
    vars(freshness)["STALE_AFTER_SECS"] = STALE_AFTER_SECS
    vars(backoff)["LONGEST_SECS"] = LONGEST_WAIT_SECS
    settings = parse_serve(sys.argv[1:], {"KUBECONFIG": os.environ["KUBECONFIG"]})
    logs.configure(settings.log_level, settings.log_format)
    await cli.Service(settings).run()


if __name__ == "__main__":
    uvloop.run(main())
