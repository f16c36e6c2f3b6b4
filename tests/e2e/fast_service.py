"""A program, not a test: the discovery service with the times of its Kubernetes watch a thirtieth of the real ones.

Run as `python fast_service.py FLAGS`, the flags being those of `gdsvc serve`. All is shortened alike, so that what
comes first on the real clock comes first here: 60 s without a good answer are 2 s, 120 s without an error are 4 s.
Timeouts of reading stay, since the scripted server ends no quiet watch.
"""

import os
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import uvloop

from gdsvc import cli, logs
from gdsvc.backends.mcs import imported
from gdsvc.kube import backoff, freshness, reflector
from gdsvc.settings import parse_serve

FASTER = 30.0
SHORTENED: Mapping[ModuleType, tuple[str, ...]] = {
    backoff: ("FIRST_SECS", "LONGEST_SECS"),
    freshness: ("STALE_AFTER_SECS", "RECOVERED_AFTER_SECS"),
    imported: ("RECOVERED_AFTER_SECS",),
    reflector: ("TICK_SECS", "SETTLED_SECS"),
}


async def main() -> None:
    for module, names in SHORTENED.items():
        names_of: dict[str, Any] = vars(module)
        names_of.update({name: names_of[name] / FASTER for name in names})
    settings = parse_serve(sys.argv[1:], os.environ)
    logs.configure(settings.log_level, settings.log_format)
    await cli.Service(settings).run()


if __name__ == "__main__":
    uvloop.run(main())
