"""The commands that ask once: pools, routers, why, deregister."""

import time

from gdsvc.client import DiscoveryApi, named_path
from gdsvc.commands.arguments import Deregister, ListPools, ListRouters, Why
from gdsvc.commands.documents import Explanation, PoolList, RouterList
from gdsvc.commands.renderings import Form, write_document
from gdsvc.commands.screen import Screen, say
from gdsvc.commands.sentences import explained
from gdsvc.commands.service import ask, failure, read, time_there
from gdsvc.commands.tables import Table, fitting, layout, pool_table, router_table, summary
from gdsvc.commands.visible import key_text


async def list_pools(api: DiscoveryApi, command: ListPools, form: Form, screen: Screen) -> None:
    """Writes the list of pools. Raises Refused, NoService."""
    answer = await ask(api, "GET", "/pools", command.filters)
    pools = read(answer, PoolList)
    if form is Form.TABLE:
        _write_list(screen, pool_table(pools.pools), pools)
    else:
        write_document(screen, form, answer.body)


async def list_routers(api: DiscoveryApi, command: ListRouters, form: Form, screen: Screen) -> None:
    """Writes the list of router replicas. Raises Refused, NoService."""
    del command
    answer = await ask(api, "GET", "/routers")
    routers = read(answer, RouterList)
    if form is Form.TABLE:
        _write_list(screen, router_table(routers), routers)
    else:
        write_document(screen, form, answer.body)


async def why(api: DiscoveryApi, command: Why, form: Form, screen: Screen) -> None:
    """Writes the explanation of a pool. Raises Refused, also for a pool never heard of, and NoService."""
    key = command.key
    answer = await ask(api, "GET", named_path("pools", key.site_id, key.namespace, key.dgd_name, "explain"))
    explanation = read(answer, Explanation)
    if form is Form.TABLE:
        screen.write(explained(explanation, time_there(answer, time.time())))
    else:
        write_document(screen, form, answer.body)


async def deregister(api: DiscoveryApi, command: Deregister, form: Form, screen: Screen) -> None:
    """Takes a pool out. Raises Refused, also for a pool that is not listed, and NoService."""
    key = command.key
    answer = await ask(api, "DELETE", named_path("pools", key.site_id, key.namespace, key.dgd_name))
    if answer.status != 204:  # what says 200 to anything has taken nothing out
        raise failure(answer)
    if form is Form.TABLE:
        screen.write(
            f"{key_text(key.site_id, key.namespace, key.dgd_name)} is taken out; a heartbeat would list it again\n"
        )
    else:
        write_document(screen, form, answer.body)


def _write_list(screen: Screen, table: Table, answer: PoolList | RouterList) -> None:
    """The table, and whether that is all: below it on a terminal; else on standard error, and only where it is not."""
    if screen.width is None:
        screen.write(layout(table, None))
        if not answer.complete:
            say(f"note: {summary(answer)}")
        return
    shown = fitting(table, screen.width)
    missing = ", ".join(table.heads[len(shown.heads) :])
    screen.write(layout(shown, screen.width))
    screen.write(f"{summary(answer)}{f'; no room for {missing}' if missing else ''}\n")
