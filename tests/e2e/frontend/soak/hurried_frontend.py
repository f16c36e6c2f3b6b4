"""A program, not a test: the Global Frontend with every timeout of its own at a fraction of what it is.

Run as `python hurried_frontend.py FLAGS`, the flags being those of `gdsvc frontend`. The one that is left out is
--upstream-idle-secs, which is there to end streams that are silent, and is off.
"""

import sys
from importlib import import_module
from typing import Any, Final

from msgspec.structs import replace

LONGEST_SECS: Final = 2.0

if __name__ == "__main__":
    front: Any = import_module("gdsvc.front")
    server: Any = import_module("gdsvc.asgi.server")
    bodies: Any = import_module("gdsvc.frontend.bodies")

    def hurried_limits(**given: Any) -> Any:
        made = limits(**given)
        names = [name for name in made.__struct_fields__ if name.endswith("_secs") and getattr(made, name) is not None]
        return replace(made, **{name: min(getattr(made, name), LONGEST_SECS) for name in names})

    limits, front.UpstreamLimits = front.UpstreamLimits, hurried_limits
    front.PEER_TIMEOUT_SECS = bodies.SILENCE_SECS = LONGEST_SECS
    server._IDLE_MILLISECONDS = round(LONGEST_SECS * 1000)
    sys.exit(import_module("gdsvc.main").main(["frontend", *sys.argv[1:]]))
