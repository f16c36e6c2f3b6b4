"""A directory that is left before it has done anything."""

import asyncio

import pytest

from gdsvc.client import Options, RemotePoolDirectory
from gdsvc.errors import Unavailable

NOBODY = Options(("http://127.0.0.1:9",))


async def test_who_reads_a_directory_that_was_left_at_once_is_told_so_and_never_waits() -> None:
    async with RemotePoolDirectory(NOBODY) as directory:
        pass
    async with asyncio.timeout(5):
        with pytest.raises(Unavailable):
            await directory.list()
        assert [event async for event in directory.list_and_watch()] == []
