"""Which policies there are: the entry points of the installed distributions, by name."""

from collections.abc import Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from gdsvc.errors import GdsvcError
from gdsvc.frontend.policies.policy import Environment, Policy

GROUP: Final = "gdsvc.policies"


class PolicyFault(GdsvcError):
    """A policy cannot be had; the sentence says which, from where, and why."""


def installed() -> tuple[EntryPoint, ...]:
    """The entry points of all policies that are installed."""
    return tuple(entry_points(group=GROUP))


def names(found: Iterable[EntryPoint]) -> tuple[str, ...]:
    """The names that --router-policy takes, sorted."""
    return tuple(sorted({point.name for point in found}))


def load(name: str, found: Iterable[EntryPoint], environment: Environment) -> Policy:
    """The policy of that name. Raises PolicyFault where there is none or more than one, or where it cannot be made."""
    found = tuple(found)
    named = {point.value: point for point in found if point.name == name}
    if not named:
        raise PolicyFault(f"there is no policy {name!r}; there is: {', '.join(names(found)) or 'none'}")
    if len(named) > 1:
        raise PolicyFault(f"policy {name!r} is there more than once: {', '.join(sorted(named))}")
    [(value, point)] = named.items()
    try:
        policy: Policy = point.load()(environment)
    except Exception as error:  # a plugin is not ours, and may fail in any way
        raise PolicyFault(f"policy {name!r} ({value}) cannot be loaded: {type(error).__name__}: {error}") from error
    if not callable(getattr(policy, "chooser", None)):
        raise PolicyFault(f"policy {name!r} ({value}) is no policy: it has no chooser()")
    return policy
