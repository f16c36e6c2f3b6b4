"""An order carried out: the command that it names, on a loop of its own, until it is done or told to end."""

import asyncio
from collections.abc import Coroutine
from typing import assert_never

from gdsvc.client import DiscoveryApi, InvalidOptions, Options
from gdsvc.commands.arguments import Deregister, ListPools, ListRouters, Order, Register, Watch, Why
from gdsvc.commands.asking import deregister, list_pools, list_routers, why
from gdsvc.commands.failures import DONE, INTERRUPTED
from gdsvc.commands.interruption import Ending, run_until_told
from gdsvc.commands.registering import register
from gdsvc.commands.registration_file import read_registration
from gdsvc.commands.renderings import Form
from gdsvc.commands.screen import ReaderLeft, Screen
from gdsvc.commands.service import options_of, usage
from gdsvc.commands.threads import ThreadsLeftBehind
from gdsvc.commands.watching import watch

Asking = ListPools | ListRouters | Deregister | Why


def carry_out(order: Order, screen: Screen) -> int:
    """The exit code. Raises GdsvcError, and ReaderLeft where the reader of the output left before the end."""
    options = options_of(order.connection)
    form = order.form
    try:
        match order.command:
            case Register() as command:
                file = read_registration(command.path)  # not in the loop, which would hold Ctrl-C back meanwhile
                return _go_on(register(options, file, form, screen, deregister=command.deregister), screen)
            case Watch() as command:
                return _go_on(_watch(options, command, form, screen), screen)
            case command:
                ending = _run(run_until_told(_ask(options, command, form, screen), held_up=screen.is_writing))
                return DONE if ending is Ending.DONE else INTERRUPTED
    except InvalidOptions as fault:  # of the TLS files, which are read late
        raise usage(fault) from None


def _go_on(work: Coroutine[None, None, None], screen: Screen) -> int:
    """Work that has no end of its own: to be told to end is how it is done."""
    if _run(run_until_told(work, screen.pipe(), screen.is_writing)) is Ending.READER_LEFT:
        raise ReaderLeft
    return DONE


def _run(work: Coroutine[None, None, Ending]) -> Ending:
    with asyncio.Runner() as runner:
        runner.get_loop().set_default_executor(ThreadsLeftBehind())
        return runner.run(work)


async def _watch(options: Options, command: Watch, form: Form, screen: Screen) -> None:
    async with DiscoveryApi(options) as api:
        await watch(api, command, form, screen)


async def _ask(options: Options, command: Asking, form: Form, screen: Screen) -> None:
    async with DiscoveryApi(options) as api:
        match command:
            case ListPools():
                await list_pools(api, command, form, screen)
            case ListRouters():
                await list_routers(api, command, form, screen)
            case Deregister():
                await deregister(api, command, form, screen)
            case Why():
                await why(api, command, form, screen)
            case _:
                assert_never(command)
