"""`gdsvc dynamodb create-table` and `check`: makes the table of registrations, and says what is wrong with it.

Decides what is written to the terminal and the exit codes: 0 done, 1 not or not all of it, 2 wrong usage.
"""

import asyncio
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Final

from gdsvc import logs
from gdsvc.backends.dynamodb.codec import TTL_ATTRIBUTE, layout_item
from gdsvc.backends.dynamodb.creation import DEFINITION, check, create
from gdsvc.backends.dynamodb.patience import Failed
from gdsvc.backends.dynamodb.table import NotInstalled, Table, opened
from gdsvc.settings import TableSettings, Usage, format_faults, parse_table

PROG: Final = "gdsvc dynamodb"

Show = Callable[[str], object]


def dynamodb(argv: Sequence[str], show: Show) -> int:
    """Runs the command that `argv` names; the exit code. `show` writes its output; what it raises is passed on."""
    try:
        settings = parse_table(argv, os.environ, PROG, show)
    except Usage as usage:
        sys.stderr.write(format_faults(usage.faults, PROG))
        return 2
    logs.configure("error", "auto")
    try:
        return asyncio.run(_carried_out(settings, show))
    except (Failed, NotInstalled) as error:  # not of writing, which is the caller's matter
        sys.stderr.write(f"{PROG} {settings.command}: {error}\n")
        return 1


async def _carried_out(settings: TableSettings, show: Show) -> int:
    if settings.command == "create-table" and settings.dry_run:
        show(f"{json.dumps(_plan(settings), indent=2)}\n")
        return 0
    async with opened(settings.dynamodb_table, settings.dynamodb_region, settings.dynamodb_endpoint_url) as table:
        if settings.command == "check":
            return await _checked(table, show)
        steps = 0
        async for step in create(table, settings.shards):  # told one by one: a new table takes its time
            steps += 1
            show(f"{step}\n")
        if not steps:
            show(f"the table {table.name} is there, and as it should be\n")
        return 0


async def _checked(table: Table, show: Show) -> int:
    faults = 0
    async for finding in check(table):
        faults += finding.fault is not None
        show(f"ok      {finding.what}\n" if finding.fault is None else f"FAULT   {finding.what}: {finding.fault}\n")
    return 1 if faults else 0


def _plan(settings: TableSettings) -> dict[str, object]:
    """What would be asked of AWS, under the names of its operations."""
    name = {"TableName": settings.dynamodb_table}
    return {
        "CreateTable": name | dict(DEFINITION),
        "UpdateTimeToLive": name | {"TimeToLiveSpecification": {"Enabled": True, "AttributeName": TTL_ATTRIBUTE}},
        "PutItem": name | {"Item": layout_item(settings.shards)},
    }
