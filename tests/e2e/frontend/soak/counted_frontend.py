"""A program, not a test: the Global Frontend, which on SIGUSR1 writes to its log how many tasks it has.

Run as `python counted_frontend.py FLAGS`, the flags being those of `gdsvc frontend`.
"""

import asyncio
import signal
import sys
from importlib import import_module
from typing import Any

from gdsvc import logs


def _tell() -> None:
    logs.get("test").info("tasks", count=len(asyncio.all_tasks()))


if __name__ == "__main__":
    front: Any = import_module("gdsvc.front")
    serve = front._serve

    async def serve_counted(*arguments: Any) -> None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, _tell)
        await serve(*arguments)

    front._serve = serve_counted
    sys.exit(import_module("gdsvc.main").main(["frontend", *sys.argv[1:]]))
