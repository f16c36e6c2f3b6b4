"""Why a pool is listed or not, in sentences: the explain document for people. The time now is passed in."""

from collections.abc import Iterator

from gdsvc.commands.documents import Explanation, Happening, LeaseState, Registrations, Source
from gdsvc.commands.times import duration, instant, since, told, when
from gdsvc.commands.visible import excerpt, key_text, sentence


def explained(explanation: Explanation, now: float) -> str:
    """The whole of it, one sentence a line; `now` is the service's time, in seconds since 1970."""
    return "".join(f"{line}\n" for line in _lines(explanation, now))


def _lines(explanation: Explanation, now: float) -> Iterator[str]:
    key = explanation.key
    yield f"{key_text(key.site_id, key.namespace, key.dgd_name)}{_reason(explanation.reason, now)}"
    if explanation.lease is not None:
        yield _lease(explanation.lease, now)
    elif not explanation.listed:
        yield "It has no lease."
    if explanation.registrations is not None:
        yield _registrations(explanation.registrations, listed=explanation.listed)
    for source in explanation.sources:
        yield _source(source, now)
    if explanation.history:
        yield "What happened to it, the newest last:"
        yield from (f"  {_happening(happening, now)}" for happening in explanation.history)
    else:
        yield "Nothing is kept of what happened to it."


def _lease(lease: LeaseState, now: float) -> str:
    heard_at, ends_at = now - lease.age_secs, now + lease.remaining_secs
    return (
        f"Its last heartbeat came at {instant(heard_at)} ({since(lease.age_secs)}); "
        f"without another its lease ends at {instant(ends_at)} (in {duration(lease.remaining_secs)})."
    )


def _registrations(heard: Registrations, *, listed: bool) -> str:
    if not heard.count:
        return "No registration of it was heard."
    sent = "1 registration of it was heard" if heard.count == 1 else f"{heard.count} registrations of it were heard"
    last = f", the last from {excerpt(heard.last_from)}" if heard.last_from else ""
    if not heard.conflicts:  # none lately: of a pool that is gone it says nothing, its history may
        return f"{sent}{last}{'; its relays agree' if listed else ''}."
    times = "once" if heard.conflicts == 1 else f"{heard.conflicts} times"
    return f"{sent}{last}; its relays disagreed {times}."


def _source(source: Source, now: float) -> str:
    as_of = f" as of {when(source.as_of, now)}" if source.as_of else ""
    detail = f": {told(sentence(source.detail), now)}" if source.detail else ""
    return f"Source {excerpt(source.name)} is {'complete' if source.complete else 'not complete yet'}{as_of}{detail}."


def _happening(happening: Happening, now: float) -> str:
    cause = f": {told(sentence(happening.cause), now)}" if happening.cause else ""
    return f"{when(happening.at, now)} {excerpt(happening.event)}{cause}"


def _reason(text: str, now: float) -> str:
    """What follows the key: `is listed: …`, `is not listed since …`, else the service's own sentence."""
    shown = told(sentence(text), now)
    verb = " is " if shown.startswith(("listed", "not listed")) else ": "
    return f"{verb}{shown}{'' if shown.endswith(('.', '!', '?', '…')) else '.'}"
