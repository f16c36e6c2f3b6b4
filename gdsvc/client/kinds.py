"""What pools and router replicas differ in for those who follow a list of them: paths, decoders, keys, known facts."""

from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct

from gdsvc import model
from gdsvc.errors import Invalid, NotJson
from gdsvc.model import PoolKey, PoolListing, RouterReplica

Item = TypeVar("Item")
Key = TypeVar("Key")
T = TypeVar("T")


class Kind(Struct, Generic[Item, Key], frozen=True):
    """One kind of member. The decoders raise NotJson and Invalid.

    `path` is that of the list, its watch is below it. `decode_list` gives whether the list is complete, and its items;
    `decode_removed` the key in the data of a `removed` event. `keep_known(held, told)` is `told`, its gaps filled.
    """

    path: str
    decode_list: Callable[[bytes], tuple[bool, list[Item]]]
    decode: Callable[[bytes], Item]
    decode_removed: Callable[[bytes], Key]
    key: Callable[[Item], Key]
    sort_key: Callable[[Key], bytes]
    keep_known: Callable[[Item, Item], Item]


class _PoolList(Struct):
    pools: list[Raw]
    complete: bool = False  # a list that does not say so is not to be relied on


class _RouterList(Struct):
    routers: list[Raw]
    complete: bool = False


class _KeyMembers(Struct):  # not PoolKey itself, which takes no members of a later version
    site_id: str
    namespace: str
    dgd_name: str


class _RemovedPool(Struct):
    key: _KeyMembers


class _RemovedRouter(Struct):
    id: str


_POOL_LIST = msgspec.json.Decoder(_PoolList)
_ROUTER_LIST = msgspec.json.Decoder(_RouterList)
_REMOVED_POOL = msgspec.json.Decoder(_RemovedPool)
_REMOVED_ROUTER = msgspec.json.Decoder(_RemovedRouter)

_FACTS = ("location", "model", "frontends", "capacity", "capabilities", "relay_identities", "extra")


def _decoded(decoder: "msgspec.json.Decoder[T]", data: bytes) -> T:
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        raise Invalid(str(error), "$") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise NotJson(f"it is no JSON: {error}") from None


def _all(encoded: Iterable[Raw], decode: Callable[[bytes], Item]) -> list[Item]:
    return [decode(bytes(one)) for one in encoded]


def _pools(body: bytes) -> tuple[bool, list[PoolListing]]:
    whole = _decoded(_POOL_LIST, body)
    return whole.complete, _all(whole.pools, model.decode_listing)


def _routers(body: bytes) -> tuple[bool, list[RouterReplica]]:
    whole = _decoded(_ROUTER_LIST, body)
    return whole.complete, _all(whole.routers, model.decode_router)


def _removed_pool(data: bytes) -> PoolKey:
    key = _decoded(_REMOVED_POOL, data).key
    return PoolKey(key.site_id, key.namespace, key.dgd_name)


def _keep_known_facts(held: PoolListing, told: PoolListing) -> PoolListing:
    """`told`, with what is held of the pool where `told` says nothing: null, an empty list, no unknown members."""
    kept: dict[str, Any] = {name: getattr(held, name) for name in _FACTS if getattr(told, name) in (None, (), UNSET)}
    return msgspec.structs.replace(told, **kept) if kept else told


POOLS: Kind[PoolListing, PoolKey] = Kind(
    path="/pools",
    decode_list=_pools,
    decode=model.decode_listing,
    decode_removed=_removed_pool,
    key=lambda listing: listing.key,
    sort_key=model.sort_key,
    keep_known=_keep_known_facts,
)

ROUTERS: Kind[RouterReplica, str] = Kind(
    path="/routers",
    decode_list=_routers,
    decode=model.decode_router,
    decode_removed=lambda data: _decoded(_REMOVED_ROUTER, data).id,
    key=lambda router: router.id,
    sort_key=str.encode,
    keep_known=lambda _held, told: told,  # both members of a replica are required
)
