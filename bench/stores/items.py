"""Pools as a replica writes them into a table: the two items of each. Starts nothing, asks nobody."""

import time
from collections.abc import Callable, Iterator
from typing import Final

from bench import payloads
from gdsvc import model
from gdsvc.backends.dynamodb import codec
from gdsvc.backends.dynamodb.codec import Item, Place
from gdsvc.backends.dynamodb.creation import SHARDS
from gdsvc.backends.dynamodb.keys import Kind
from gdsvc.backends.shared.sightings import Renewal
from gdsvc.backends.shared.store import Registration

WRITER: Final = b"benchbee"  # who wrote, as the stamps say it: eight characters, which renew_in replaces
LEASE_SECS: Final = 3600  # no lease is to end while nobody beats


def items(first: int, pools: int, unix_now: Callable[[], float] = time.time) -> Iterator[Item]:
    """The renewal and the registration of each pool from number `first` up to `pools`."""
    place, now = Place(SHARDS), unix_now()
    for number in range(first, pools):
        registration = model.decode_registration(payloads.large(number))
        name, payload = model.sort_key(registration.key), model.encode_listing(registration)
        version = codec.later_version(0, now)
        stamp = codec.stamp(now, WRITER.decode(), number)
        yield place.renewal_item(Kind.POOL, name, Renewal(stamp, now, LEASE_SECS, version))
        yield place.registration_item(Kind.POOL, name, Registration(version, payload), now)


def renewed(answer: bytes, number: int) -> bytes:
    """The same answer with other stamps, as long, which differ for each `number` (below 16^8)."""
    return answer.replace(b"-" + WRITER + b"-", b"-%08x-" % number)
