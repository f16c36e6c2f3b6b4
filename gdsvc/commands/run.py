"""One command from its command line to its exit code."""

import asyncio
import logging
from collections.abc import Mapping, Sequence

from gdsvc.commands.arguments import (
    ASKS_FOR_HELP,
    Deregister,
    ListPools,
    ListRouters,
    Order,
    Register,
    Watch,
    Why,
    help_text,
    read,
)
from gdsvc.commands.failures import DONE, INTERRUPTED, USAGE, Unwritable, Usage, exit_code
from gdsvc.commands.interruption import Ending, run_until_told
from gdsvc.commands.screen import ReaderLeft, Screen, leave_quietly, say, standard_output
from gdsvc.errors import GdsvcError


def run(name: str, argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Does what `gdsvc NAME` with `argv` behind it asks for; the exit code. `name` is one of MANUALS."""
    prog = f"gdsvc {name}"
    screen = standard_output()
    try:
        if not ASKS_FOR_HELP.isdisjoint(argv):
            screen.write(help_text(name))
            return DONE
        return _carry_out(read(name, argv, environ), screen)
    except ReaderLeft:
        leave_quietly()
        return DONE
    except Usage as fault:
        say(f"{prog}: {fault}")
        say(f"try '{prog} --help'")
        return USAGE
    except GdsvcError as error:
        if isinstance(error, Unwritable):
            leave_quietly()
        say(f"{prog}: {error}")
        return exit_code(error)
    except KeyboardInterrupt:
        return INTERRUPTED


def _carry_out(order: Order, screen: Screen) -> int:
    logging.getLogger().addHandler(logging.NullHandler())  # what libraries remark is nothing for the caller's terminal
    endless = isinstance(order.command, Watch | Register)
    ending = asyncio.run(run_until_told(_work(order, screen), screen.pipe() if endless else None))
    match ending:
        case Ending.READER_LEFT:
            raise ReaderLeft
        case Ending.TOLD if not endless:
            return INTERRUPTED
        case _:
            return DONE


async def _work(order: Order, screen: Screen) -> None:
    """The imports are late, so that --help and a wrong command line do not wait for an HTTP library."""
    from gdsvc.client import DiscoveryApi, InvalidOptions
    from gdsvc.commands import asking, registering, watching
    from gdsvc.commands.service import options_of, usage

    options = options_of(order.connection)
    if isinstance(order.command, Register):
        await registering.register(options, order.command, order.form, screen)
        return
    try:
        async with DiscoveryApi(options) as api:
            match order.command:
                case ListPools():
                    await asking.list_pools(api, order.command, order.form, screen)
                case ListRouters():
                    await asking.list_routers(api, order.command, order.form, screen)
                case Watch():
                    await watching.watch(api, order.command, order.form, screen)
                case Deregister():
                    await asking.deregister(api, order.command, order.form, screen)
                case Why():
                    await asking.why(api, order.command, order.form, screen)
    except InvalidOptions as fault:  # entering reads the TLS files
        raise usage(fault) from None
