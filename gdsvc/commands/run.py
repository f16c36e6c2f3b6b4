"""One command from its command line to its exit code: help, faults and failures as lines, the rest is carried out."""

import logging
from collections.abc import Mapping, Sequence

from gdsvc.commands.arguments import ASKS_FOR_HELP, help_text, read
from gdsvc.commands.failures import DONE, INTERRUPTED, USAGE, Unwritable, Usage, exit_code
from gdsvc.commands.screen import ReaderLeft, leave_quietly, say, standard_output
from gdsvc.errors import GdsvcError


def run(name: str, argv: Sequence[str], environ: Mapping[str, str]) -> int:
    """Does what `gdsvc NAME` with `argv` behind it asks for; the exit code. `name` is one of MANUALS."""
    prog = f"gdsvc {name}"
    screen = standard_output()
    try:
        if not ASKS_FOR_HELP.isdisjoint(argv):
            screen.write(help_text(name))
            return DONE
        order = read(name, argv, environ)
        from gdsvc.commands.carrying_out import carry_out  # loads HTTP, for which no help or fault has to wait

        logging.lastResort = None  # what libraries remark is nothing for a person's terminal
        return carry_out(order, screen)
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
