"""The slow reference among the yardsticks, loaded from its file: kept as it was given, it is no module of ours."""

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, cast

FILE = Path(__file__).parent / "yardsticks" / "slow_reference.py"

Key = tuple[str, str, str]


class SlowRegistry(Protocol):
    """What the reference offers; `heap` holds a (deadline, key) for every registration, stale ones too."""

    heap: list[tuple[float, Key]]

    def register(self, body: bytes, now: float) -> bool: ...

    def expire(self, now: float) -> list[Key]: ...

    def encode(self, complete: bool) -> bytes: ...


@cache
def _module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("slow_reference", FILE)
    if spec is None or spec.loader is None:
        raise ImportError(f"{FILE} is no module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def slow_registry(ttl: float) -> SlowRegistry:
    """An empty registry whose leases last `ttl` seconds."""
    return cast(SlowRegistry, _module().SlowRegistry(ttl))


def slow_listing(body: bytes) -> tuple[Key, dict[str, Any]]:
    """What the reference makes of one body. Raises ValueError and its kin."""
    return cast(tuple[Key, dict[str, Any]], _module().listing(body))
