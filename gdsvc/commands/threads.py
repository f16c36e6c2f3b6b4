"""Threads for what blocks, which a command does not wait for at its end.

The resolver is asked in one. Where no name server answers it takes ten seconds and more, and cannot be told to stop.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Thread
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class ThreadsLeftBehind(ThreadPoolExecutor):
    """A thread for each call, gone with the process. A ThreadPoolExecutor, since loops take no other by default."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Calls `fn` in a thread of its own."""
        future: Future[T] = Future()

        def call() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = fn(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - for who waits for the future
                future.set_exception(error)
            else:
                future.set_result(result)

        Thread(target=call, daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Waits for no thread."""
