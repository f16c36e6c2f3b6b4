"""What a type checker must refuse; the rules that it names stand behind each line, mypy's first."""

from gdsvc._pool_index import PoolIndex
from gdsvc.model import PoolKey, PoolListing
from gdsvc.pool_discovery.directory import PoolDirectory
from gdsvc.pool_discovery.watch import Snapshot

KEY = PoolKey("ohio", "dynamo", 1)  # !arg-type !reportArgumentType
SHORT = PoolKey("ohio", "dynamo")  # !call-arg !reportCallIssue
KEY.site_id = "texas"  # !misc !reportAttributeAccessIssue
SITE = KEY.site  # !attr-defined !reportAttributeAccessIssue


class NoWatch:
    async def list(self) -> Snapshot[PoolListing]:
        raise NotImplementedError


DIRECTORY: PoolDirectory = NoWatch()  # !assignment !reportAssignmentType
INDEX = PoolIndex()  # !call-arg !reportCallIssue
INDEX.renew("text", 0.0, 15.0)  # !arg-type !reportArgumentType
INDEX.revision = 7  # !misc !reportAttributeAccessIssue


async def revision(pools: PoolDirectory) -> str:
    snapshot = await pools.list()
    return snapshot.revision  # !return-value !reportReturnType


def not_awaited(pools: PoolDirectory) -> object:
    return pools.list().revision  # !attr-defined !reportAttributeAccessIssue
