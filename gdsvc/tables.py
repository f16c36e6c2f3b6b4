"""`gdsvc dynamodb create-table` and `check`: makes the table of registrations, and says what is wrong with it.

Decides what is written to the terminal and the exit codes: 0 done, 1 not or not all of it, 2 wrong usage.
"""

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from typing import Final

from gdsvc import logs
from gdsvc.backends.dynamodb.codec import TTL_ATTRIBUTE, layout_item
from gdsvc.backends.dynamodb.creation import DEFINITION, check, create
from gdsvc.backends.dynamodb.patience import Failed
from gdsvc.backends.dynamodb.table import opened
from gdsvc.errors import GdsvcError
from gdsvc.settings import TableSettings, Usage, format_faults, parse_table

PROG: Final = "gdsvc dynamodb"


def dynamodb(argv: Sequence[str]) -> int:
    """Runs the command that `argv` names; the exit code."""
    try:
        settings = parse_table(argv, os.environ, PROG)
    except Usage as usage:
        sys.stderr.write(format_faults(usage.faults, PROG))
        return 2
    logs.configure("error", "auto")
    try:
        return asyncio.run(_carried_out(settings))
    except (Failed, GdsvcError) as error:
        sys.stderr.write(f"{PROG} {settings.command}: {error}\n")
        return 1


async def _carried_out(settings: TableSettings) -> int:
    if settings.command == "create-table" and settings.dry_run:
        _say(json.dumps(_plan(settings), indent=2))
        return 0
    async with opened(settings.dynamodb_table, settings.dynamodb_region, settings.dynamodb_endpoint_url) as table:
        if settings.command == "check":
            faults = 0
            async for finding in check(table):
                faults += finding.fault is not None
                _say(f"ok      {finding.what}" if finding.fault is None else f"FAULT   {finding.what}: {finding.fault}")
            return 1 if faults else 0
        steps = [step async for step in create(table, settings.shards)]
        _say("\n".join(steps) or f"the table {table.name} is there, and as it should be")
        return 0


def _plan(settings: TableSettings) -> dict[str, object]:
    """What would be asked of AWS, under the names of its operations."""
    name = {"TableName": settings.dynamodb_table}
    return {
        "CreateTable": name | dict(DEFINITION),
        "UpdateTimeToLive": name | {"TimeToLiveSpecification": {"Enabled": True, "AttributeName": TTL_ATTRIBUTE}},
        "PutItem": name | {"Item": layout_item(settings.shards)},
    }


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
