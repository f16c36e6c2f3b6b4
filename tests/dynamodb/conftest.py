"""Tables that services, which are processes, share."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.dynamodb.faulty_table import FaultyTable, in_a_thread
from tests.dynamodb.tables import table
from tests.e2e.conftest import serve, tell

__all__ = ["proxy", "serve", "shared_table", "tell"]


@pytest.fixture
def shared_table(ministack: str) -> str:
    """The name of a new table."""

    async def make() -> str:
        async with table(ministack) as made:
            return made.name

    return asyncio.run(make())


@pytest.fixture
def proxy(ministack: str) -> Iterator[FaultyTable]:
    """Before the server of all tables."""
    with in_a_thread(ministack) as made:
        yield made
