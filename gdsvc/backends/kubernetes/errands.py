"""One write on its way into a Lease: what to ask the API server next, and what its answer means. Does no I/O.

Every errand may be carried out twice with the effect of once: a write whose answer was lost is simply asked again.
"""

from typing import Final, Protocol

import msgspec
from msgspec import Struct

from gdsvc.backends.kubernetes import leases
from gdsvc.backends.kubernetes.leases import JSON_PATCH, Unreadable, Wanted, Written
from gdsvc.errors import DoesNotFit, GdsvcError, Unavailable
from gdsvc.kube import objects
from gdsvc.kube.client import Answer

AT_ONCE: Final = 3  # asks that may follow each other without a pause, since each learnt something new
_TOO_LONG: Final = "Too long"  # what the API server says of annotations beyond their bound
_JSON: Final = "application/json"


class Ask(Struct, frozen=True):
    """One request for the Lease, or for the collection that it is to be created in."""

    method: str
    body: bytes = b""
    content_type: str = _JSON
    of_collection: bool = False


class Done(Struct, frozen=True):
    """The errand is done. `written` is what the Lease says now; None where it is gone, or was not there (`existed`)."""

    written: Written | None
    existed: bool = True


class Ahead(Struct, frozen=True):
    """Ask again at once: the answer said how to go on."""


class Pause(Struct, frozen=True):
    """Ask again after a pause, which the server wants to be of `least_secs`."""

    reason: str
    least_secs: float = 0.0


Step = Done | Ahead | Pause | GdsvcError


class Errand(Protocol):
    """What a writer carries out."""

    def begin(self, known: Written | None) -> None:
        """It is this errand's turn; `known` is the newest that is known of the Lease."""
        ...

    def ask(self, renewed: str, nonce: str) -> Ask:
        """What to ask now, if the clock says `renewed`; `nonce` is a text that was never given before."""
        ...

    def answered(self, answer: Answer) -> Step: ...
    def broke(self, reason: str) -> Step:
        """No answer came; what was asked may have been done."""
        ...


class Put:
    """Registers, renews or changes: whichever it takes for the Lease to say `wanted`, as of now.

    A change is made only to the registration that was known when the errand began. Where another replica has changed
    it meanwhile, the heartbeat of this errand counts as the older one, which must not undo the newer: the errand is
    done then, and what the other wrote is what the Lease says.
    """

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self._known: Written | None = None
        self._base: str | None = None  # the version that a change may replace
        self._unreadable_uid = ""  # of a Lease by this name that says nothing
        self._looking = False
        self._at_once = 0

    def begin(self, known: Written | None) -> None:
        self._known = known
        self._base = None if known is None else known.version

    def ask(self, renewed: str, nonce: str) -> Ask:
        wanted, known = self.wanted, self._known
        if self._looking:
            return Ask("GET")
        if self._unreadable_uid:
            body = leases.repair(self._unreadable_uid, wanted, leases.next_version(None, nonce), renewed)
            return Ask("PATCH", body, JSON_PATCH)
        if known is None:
            version = leases.next_version(None, nonce)
            return Ask("POST", leases.creation(wanted, version, renewed), of_collection=True)
        if known.registration == wanted.registration:
            return Ask("PATCH", leases.renewal(known, wanted, renewed), JSON_PATCH)
        return Ask("PATCH", leases.change(known, wanted, leases.next_version(known, nonce), renewed), JSON_PATCH)

    def answered(self, answer: Answer) -> Step:
        if self._looking:
            return self._looked(answer)
        if answer.status not in (200, 201):
            return self._refused(answer)
        written = leases.decode(answer.body)
        return Pause(written.reason) if isinstance(written, Unreadable) else Done(written)

    def broke(self, reason: str) -> Step:
        return Pause(reason)

    def _refused(self, answer: Answer) -> Step:
        match answer.status:
            case 404 if self._known is not None or self._unreadable_uid:  # it was deleted meanwhile
                self._known, self._unreadable_uid = None, ""
                return self._ahead("the Lease was deleted meanwhile")
            case 409 if self._known is None:  # it was created meanwhile, or never seen
                return self._look("the Lease was created meanwhile")
            case 422 if _TOO_LONG in _message(answer):
                return _too_long()
            case 422 if self._known is not None or self._unreadable_uid:  # its registration is another by now
                return self._look("the Lease was changed meanwhile")
            case _:
                return refusal(answer)

    def _looked(self, answer: Answer) -> Step:
        if answer.status == 404:
            self._looking, self._known, self._unreadable_uid = False, None, ""
            return self._ahead("the Lease was deleted meanwhile")
        if answer.status != 200:
            return refusal(answer)
        self._looking = False
        found = leases.decode(answer.body)
        if isinstance(found, Unreadable):
            self._unreadable_uid = found.uid
            return self._ahead(found.reason) if found.uid else Pause(found.reason)
        self._unreadable_uid = ""
        if found.registration != self.wanted.registration and found.version != self._base:
            return Done(found)
        self._known = found
        return self._ahead("the Lease changes all the time")

    def _look(self, reason: str) -> Step:
        self._looking = True
        return self._ahead(reason)

    def _ahead(self, reason: str) -> Step:
        self._at_once += 1
        return Ahead() if self._at_once <= AT_ONCE else Pause(reason)


class TakeOut:
    """Deletes the Lease, whatever it says."""

    def __init__(self) -> None:
        self._unsure = False  # whether an earlier ask has deleted it

    def begin(self, known: Written | None) -> None:
        del known

    def ask(self, renewed: str, nonce: str) -> Ask:
        del renewed, nonce
        return Ask("DELETE")

    def answered(self, answer: Answer) -> Step:
        match answer.status:
            case 200 | 202:
                return Done(None)
            case 404:
                return Done(None, existed=self._unsure)
            case _:
                return refusal(answer)

    def broke(self, reason: str) -> Step:
        self._unsure = True
        return Pause(reason)


class Look:
    """Asks what the Lease says."""

    def begin(self, known: Written | None) -> None:
        del known

    def ask(self, renewed: str, nonce: str) -> Ask:
        del renewed, nonce
        return Ask("GET")

    def answered(self, answer: Answer) -> Step:
        if answer.status == 404:
            return Done(None, existed=False)
        if answer.status != 200:
            return refusal(answer)
        found = leases.decode(answer.body)
        return Done(None, existed=False) if isinstance(found, Unreadable) else Done(found)

    def broke(self, reason: str) -> Step:
        return Pause(reason)


class ClearAway:
    """Deletes a Lease that nobody has renewed for long, unless somebody does now."""

    def __init__(self, written: Written) -> None:
        self._body = leases.deletion(written)

    def begin(self, known: Written | None) -> None:
        del known

    def ask(self, renewed: str, nonce: str) -> Ask:
        del renewed, nonce
        return Ask("DELETE", self._body)

    def answered(self, answer: Answer) -> Step:
        if answer.status in (404, 409):  # another replica was first, or it is renewed
            return Done(None, existed=False)
        return Done(None) if answer.status in (200, 202) else refusal(answer)

    def broke(self, reason: str) -> Step:
        return Pause(reason)


def refusal(answer: Answer) -> Step:
    """What a status means that has no meaning of its own for an errand."""
    text = f"the API server answered {answer.status}: {_message(answer)[:300] or 'no message'}"
    match answer.status:
        case 413:
            return _too_long()
        case 429 | 503:
            return Pause(text, answer.retry_after_secs or 0.0)
        case 401 | 408 | 409:  # 401: the credentials are renewed by now
            return Pause(text)
        case status if status >= 500:
            return Pause(text, answer.retry_after_secs or 0.0)
        case _:  # 403, or a 404 for the namespace: asking again will not help, a person will
            return Unavailable(text, 5)


def _too_long() -> DoesNotFit:
    return DoesNotFit("the registration does not fit into a Kubernetes Lease, whose annotations hold 256 KiB in all")


def _message(answer: Answer) -> str:
    try:
        return objects.STATUS.decode(answer.body).message or ""
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
