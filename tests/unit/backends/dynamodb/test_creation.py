"""How a table is made and looked at."""

import pytest

from gdsvc.backends.dynamodb import codec
from gdsvc.backends.dynamodb.creation import DEFINITION, Finding, check, create
from gdsvc.backends.dynamodb.keys import LAYOUT_KEY
from gdsvc.backends.dynamodb.patience import Failed
from tests.unit.backends.dynamodb.scripted import ScriptedTable

AT_ITS_DATE = 1_800_000_000.0  # what the scripted table says


async def made(table: ScriptedTable, shards: int = 4) -> list[str]:
    return [step async for step in create(table, shards)]


async def faults(table: ScriptedTable, unix_now: float = AT_ITS_DATE) -> list[Finding]:
    return [finding async for finding in check(table, lambda: unix_now) if finding.fault is not None]


async def test_a_table_is_made_in_three_steps_and_once() -> None:
    table = ScriptedTable()
    assert [step.split()[0] for step in await made(table)] == ["created", "enabled", "laid"]
    assert await made(table) == []
    assert await faults(table) == []


async def test_a_table_that_is_there_keeps_its_shards() -> None:
    table = ScriptedTable()
    await made(table)
    assert await made(table, 8) == ["it has 4 shards, not 8, which cannot be changed any more"]
    table.items[LAYOUT_KEY] = codec.layout_item(4) | {"v": {"N": "2"}}
    with pytest.raises(Failed, match="does not know"):
        await made(table)


async def test_a_check_leaves_nothing_behind() -> None:
    table = ScriptedTable()
    await made(table)
    await faults(table)
    assert set(table.items) == {LAYOUT_KEY}


async def test_a_check_says_what_is_wrong() -> None:
    table = ScriptedTable()
    assert [finding.what for finding in await faults(table)] == ["the table is there"]
    await made(table)
    assert await faults(table, AT_ITS_DATE + 61.0) == [
        Finding("its clock and ours differ by less than 60 s", "ours is +61 s off")
    ]
    table.description = dict(DEFINITION) | {"KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}]}
    table.ttl = {"TimeToLiveStatus": "ENABLED", "AttributeName": "expires"}
    del table.items[LAYOUT_KEY]
    assert [finding.fault for finding in await faults(table)] == [
        "they are id",
        "time to live looks at the attribute 'expires'",
        "there is none; run `gdsvc dynamodb create-table`",
    ]
    table.ttl = {}
    assert (await faults(table))[1].fault == "time to live is off; run `gdsvc dynamodb create-table`"
