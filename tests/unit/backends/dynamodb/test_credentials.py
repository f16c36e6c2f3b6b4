"""Credentials that are renewed before anybody waits for them."""

import asyncio
import re
import sys
from datetime import UTC, datetime
from typing import NamedTuple

import pytest

from gdsvc.backends.dynamodb.credentials import LONGEST_WAIT_SECS, SHORTEST_WAIT_SECS, KeptFresh
from gdsvc.backends.dynamodb.table import NotInstalled, opened

NOW = 1_800_000_000.0


class Frozen(NamedTuple):
    access_key: str
    account_id: str | None = "123"


class Fetched:
    """What a provider of the chain gives: of the client's own kind, as far as that is looked at."""

    method = "scripted"

    def __init__(self, key: str, ends_at: float | None = None) -> None:
        self.key = key
        self.fails = False
        self.given = asyncio.Event()
        self.given.set()
        if ends_at is not None:
            self._expiry_time = datetime.fromtimestamp(ends_at, UTC)

    async def get_frozen_credentials(self) -> Frozen:
        await self.given.wait()
        if self.fails:
            raise RuntimeError("the endpoint does not answer")
        return Frozen(self.key)


class Chain:
    def __init__(self, *found: Fetched | None) -> None:
        self.found = list(found)
        self.asked = 0

    async def load_credentials(self) -> Fetched | None:
        self.asked += 1
        return self.found.pop(0) if self.found else None


async def test_a_call_gets_what_was_fetched_last_however_long_a_renewal_takes() -> None:
    fetched = Fetched("first", NOW + 120)
    fresh = KeptFresh(Chain(fetched), lambda: NOW)
    held = await fresh.load_credentials()
    assert held is not None
    assert (await held.get_frozen_credentials(), await held.get_account_id()) == (Frozen("first"), "123")
    fetched.key = "second"
    assert await held.get_frozen_credentials() == Frozen("first")
    await fresh.renew()
    assert await held.get_frozen_credentials() == Frozen("second")


async def test_a_renewal_that_fails_leaves_what_there_is() -> None:
    fetched = Fetched("first", NOW + 120)
    fresh = KeptFresh(Chain(fetched), lambda: NOW)
    held = await fresh.load_credentials()
    assert held is not None
    await held.get_frozen_credentials()
    fetched.fails = True
    with pytest.raises(RuntimeError):
        await fresh.renew()
    assert await held.get_frozen_credentials() == Frozen("first")


async def test_a_file_whose_content_was_replaced_is_read_again_and_one_that_is_gone_leaves_what_there_is() -> None:
    chain = Chain(Fetched("first"), Fetched("second"), None)
    fresh = KeptFresh(chain, lambda: NOW)
    held = await fresh.load_credentials()
    assert held is not None
    for _ in range(2):
        await fresh.renew()
        assert await held.get_frozen_credentials() == Frozen("second")
    assert chain.asked == 3


async def test_what_ends_by_a_date_is_not_looked_for_again() -> None:
    chain = Chain(Fetched("first", NOW + 3600))
    fresh = KeptFresh(chain, lambda: NOW)
    await fresh.load_credentials()
    await fresh.renew()
    assert chain.asked == 1


@pytest.mark.parametrize(
    ("ends_at", "secs"),
    [
        (None, LONGEST_WAIT_SECS),
        (NOW + 3600, LONGEST_WAIT_SECS),
        (NOW + 60, 30.0),
        (NOW + 1, SHORTEST_WAIT_SECS),
        (NOW - 9, SHORTEST_WAIT_SECS),
    ],
)
async def test_they_are_renewed_after_half_of_their_life(ends_at: float | None, secs: float) -> None:
    fresh = KeptFresh(Chain(Fetched("first", ends_at)), lambda: NOW)
    await fresh.load_credentials()
    assert fresh._wait_secs(failing=False) == secs
    assert fresh._wait_secs(failing=True) == SHORTEST_WAIT_SECS


async def test_no_call_waits_for_the_first_keys_which_are_fetched_on_entering() -> None:
    fetched = Fetched("first", NOW + 120)
    fetched.given.clear()
    fresh = KeptFresh(Chain(fetched), lambda: NOW)
    held = await fresh.load_credentials()
    assert held is not None
    entering = asyncio.ensure_future(fresh.__aenter__())
    await asyncio.sleep(0)
    assert not entering.done()
    fetched.given.set()
    await entering
    assert held.frozen == Frozen("first")
    await fresh.__aexit__(None, None, None)


async def test_first_keys_that_fail_or_do_not_come_are_asked_for_again_by_the_first_call() -> None:
    for slow in (False, True):
        fetched = Fetched("first", NOW + 120)
        fetched.fails = not slow
        if slow:
            fetched.given.clear()
        fresh = KeptFresh(Chain(fetched), lambda: NOW, first_secs=0.01)
        held = await fresh.load_credentials()
        assert held is not None
        async with fresh:
            assert held.frozen is None
            fetched.fails = False
            fetched.given.set()
            assert await held.get_frozen_credentials() == Frozen("first")


async def test_who_gives_up_entering_leaves_nothing_behind() -> None:
    fetched = Fetched("first", NOW + 120)
    fetched.given.clear()
    fresh = KeptFresh(Chain(fetched), lambda: NOW)
    await fresh.load_credentials()
    before = asyncio.all_tasks()
    entering = asyncio.ensure_future(fresh.__aenter__())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
    assert asyncio.all_tasks() == before


async def test_where_there_are_none_there_is_nothing_to_renew() -> None:
    fresh = KeptFresh(Chain())
    assert await fresh.load_credentials() is None
    await fresh.renew()


async def test_where_the_extra_is_not_installed_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiobotocore.session", None)
    with pytest.raises(NotInstalled, match=re.escape("pip install 'gdsvc[dynamodb]'")):
        async with opened("pools", "us-east-1", None):
            pass
