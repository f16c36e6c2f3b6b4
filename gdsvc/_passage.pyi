from collections.abc import Coroutine
from types import GenericAlias
from typing import Any, Generic, Self, TypeVar

from typing_extensions import disjoint_base

from gdsvc._arriving import Arriving
from gdsvc._exchange import Response
from gdsvc._heads import CallerHead, Sieve
from gdsvc._histogram import Histogram
from gdsvc._in_flight import Frontend

_Scope = TypeVar("_Scope")
_Receive = TypeVar("_Receive")
_Send = TypeVar("_Send")
_Desk = TypeVar("_Desk", bound=Desk)

@disjoint_base
class Desk:
    tells: bool
    def __init__(
        self,
        departures: Any,
        requests: dict[tuple[str, str, int], int],
        outcomes: dict[tuple[str, str], int],
        sieve: Sieve,
        notable: frozenset[int],
        selection: Histogram,
    ) -> None: ...
    @property
    def in_flight(self) -> int: ...

@disjoint_base
class Passage(Generic[_Scope, _Receive, _Send, _Desk]):
    told: int
    end: str
    frontend: Frontend
    def __new__(
        cls,
        scope: _Scope,
        receive: _Receive,
        send: _Send,
        desk: _Desk,
        head: CallerHead,
        route: str,
        first_byte: Histogram,
    ) -> Self: ...
    def __class_getitem__(cls, item: Any, /) -> GenericAlias: ...
    @property
    def scope(self) -> _Scope: ...
    @property
    def receive(self) -> _Receive: ...
    @property
    def send(self) -> _Send: ...
    @property
    def desk(self) -> _Desk: ...
    @property
    def head(self) -> CallerHead: ...
    @property
    def route(self) -> str: ...
    @property
    def pool(self) -> str: ...
    @property
    def body(self) -> Arriving | None: ...
    @property
    def sent(self) -> int: ...
    @property
    def status(self) -> int: ...
    @property
    def is_second(self) -> bool: ...
    @property
    def secs(self) -> float: ...
    @property
    def said_done(self) -> bool: ...
    def body_came(self) -> None: ...
    def run(self) -> Coroutine[Any, Any, None]: ...
    def attempt(self) -> Coroutine[Any, Any, bool]: ...
    def answer(self, response: Response) -> Coroutine[Any, Any, None]: ...
