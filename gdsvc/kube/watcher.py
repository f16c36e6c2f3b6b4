"""The list-watch state machine: decides what to ask the API server next and what each answer means for the view.

It does no I/O, holds no clock and no objects: the reflector passes lines and items in and carries the outputs out.
An error is an output. After every one of them the machine knows what to ask next; how long to wait is not its matter.
"""

from dataclasses import dataclass
from typing import Final, Generic, Literal, Protocol, TypeVar, assert_never

from gdsvc.kube import objects
from gdsvc.kube.framing import Decoder, Unreadable, decode

WATCH_SECS: Final = 50  # ends the watch, so that a silent server shows up as an error: the read timeout is 75 s
SHORTEST_WATCH_SECS: Final = 1.0  # a watch that ends cleanly before this told us nothing and is backed off
STREAM_PATIENCE_SECS: Final = 3.0  # with the silence of a streaming list: a server that knows none never ends it
LONGEST_RETRY_AFTER_SECS: Final = 60.0  # a server that asks for more does not get to silence us

Cause = Literal["first", "interval", "expired", "too_large_revision", "revision_refused", "unreadable", "internal"]
Kind = Literal[
    "expired", "too_large_revision", "throttled", "unauthorized", "refused", "error_event", "unreadable",
    "unknown_event", "ended_early", "connection", "timeout", "tls", "credentials", "too_large", "internal",
]  # fmt: skip


class KubeObject(Protocol):
    """What the machine reads of an object."""

    @property
    def metadata(self) -> objects.ObjectMeta: ...


T = TypeVar("T", bound=KubeObject)


@dataclass(frozen=True, slots=True)
class Ask:
    """The next request: the query of a GET. `patience_secs` bounds its silences until the list is whole."""

    query: dict[str, str]
    watch: bool
    patience_secs: float | None = None


# ------------------------------------------------------------------------------------------------ outputs


@dataclass(frozen=True, slots=True)
class Init:
    """A list begins, and why: what was built aside before counts for nothing."""

    cause: Cause


@dataclass(frozen=True, slots=True)
class InitApply(Generic[T]):
    """An object of the list that is being received."""

    item: T


@dataclass(frozen=True, slots=True)
class InitDelete(Generic[T]):
    """An object left while a streaming list was being received."""

    item: T


@dataclass(frozen=True, slots=True)
class InitDone:
    """The list is whole: swap."""


@dataclass(frozen=True, slots=True)
class Apply(Generic[T]):
    """An object appeared or changed."""

    item: T


@dataclass(frozen=True, slots=True)
class Delete(Generic[T]):
    """An object left."""

    item: T


@dataclass(frozen=True, slots=True)
class Failed:
    """Something went wrong; `message` holds no secret. `retry_after_secs` is what the server asks for."""

    kind: Kind
    message: str
    retry_after_secs: float | None = None


Output = Init | InitApply[T] | InitDelete[T] | InitDone | Apply[T] | Delete[T] | Failed


# ------------------------------------------------------------------------------------------------- states


@dataclass(frozen=True, slots=True)
class Unlisted:
    """A list is to be asked for, not older than `revision`: "0" is any, None the newest there is."""

    revision: str | None
    cause: Cause


@dataclass(frozen=True, slots=True)
class Listing:
    """A plain list is being received; `asked` is where to go back to if it breaks."""

    asked: Unlisted


@dataclass(frozen=True, slots=True)
class Streaming:
    """A streaming list is being received."""

    asked: Unlisted


@dataclass(frozen=True, slots=True)
class Watching:
    """The view is whole up to `revision`. `torn`: a line could not be read, so something may be missing."""

    revision: str
    torn: bool = False


State = Unlisted | Listing | Streaming | Watching


class Watcher(Generic[T]):
    """The machine. A turn is `ask`, `opened` on status 200, then items or lines, then exactly one ending.

    Endings: `listed`, `refused`, `ended`, `broke`, `fell_silent`, `relist`. No input raises, whatever the bytes.
    """

    def __init__(self, decoder: Decoder[T], *, streaming: bool = True) -> None:
        self._decoder = decoder
        self._streaming = streaming  # until the server shows that it has no streaming list
        self.state: State = Unlisted("0", "first")

    def ask(self) -> Ask:
        """What to ask for now."""
        match self.state:
            case Unlisted() as asked:
                return _ask_stream(asked) if self._streaming else _ask_list(asked)
            case Listing(asked=asked):  # a turn without an ending: as if it had broken
                return _ask_list(asked)
            case Streaming(asked=asked):
                return _ask_stream(asked)
            case Watching(revision=revision):
                return _ask_watch(revision)
            case _:
                assert_never(self.state)

    def opened(self) -> list[Output[T]]:
        """The server answered 200."""
        match self.state:
            case Unlisted() as asked:
                self.state = Streaming(asked) if self._streaming else Listing(asked)
                return [Init(asked.cause)]
            case Listing(asked=asked) | Streaming(asked=asked):
                return [Init(asked.cause)]
            case Watching():
                return []
            case _:
                assert_never(self.state)

    def item(self, item: T | Unreadable) -> list[Output[T]]:
        """One item of a plain list. One that cannot be read is left out, and the list goes on."""
        if isinstance(item, Unreadable):
            return [Failed("unreadable", f"an item of the list cannot be read: {item.message}")]
        return [InitApply(item)]

    def listed(self, metadata: objects.ListMeta) -> list[Output[T]]:
        """The plain list is at its end."""
        if not metadata.resource_version:
            return self.broke("unreadable", "the list names no resourceVersion")
        if metadata.more:  # taken for whole, it would remove what it leaves out
            return self.broke("unreadable", "the list is only a part, though the whole was asked for")
        self.state = Watching(metadata.resource_version)
        return [InitDone()]

    def receive(self, line: bytes) -> list[Output[T]]:
        """One line of a watch or of a streaming list."""
        event = decode(objects.WATCH_EVENT, line)
        if isinstance(event, Unreadable):
            return self._unread("unreadable", f"a line of the watch cannot be read: {event.message}")
        match event.type:
            case "ADDED" | "MODIFIED" | "DELETED":
                return self._changed(event.type == "DELETED", decode(self._decoder, event.object))
            case "BOOKMARK":
                return self._bookmark(decode(objects.BOOKMARK, event.object))
            case "ERROR":
                return self._error_event(decode(objects.STATUS, event.object))
            case unknown:
                return self._unread("unknown_event", f"the watch holds an event of unknown type {unknown[:40]!r}")

    def refused(self, code: int, body: bytes, retry_after_secs: float | None = None) -> list[Output[T]]:
        """The server answered something other than 200."""
        status = decode(objects.STATUS, body)
        if isinstance(status, Unreadable):
            status = objects.Status()
        if self._streaming and isinstance(self.state, Unlisted) and code in _NO_STREAMING:
            return self._without_streaming()
        return self._refuse(code, status, retry_after_secs)

    def ended(self, lasted_secs: float) -> list[Output[T]]:
        """The answer ended cleanly, `lasted_secs` after its head."""
        match self.state:
            case Unlisted():
                return []
            case Streaming():  # a server that took it for an ordinary watch: no bookmark will ever end the list
                return self._without_streaming()
            case Listing():
                return self.broke("unreadable", "the list ended before it was whole")
            case Watching():
                self._end_watch()
                return [_ENDED_EARLY] if lasted_secs < SHORTEST_WATCH_SECS else []
            case _:
                assert_never(self.state)

    def broke(self, kind: Kind, message: str) -> list[Output[T]]:
        """No answer, or one that broke off: a list counts for nothing, a watch goes on where it was."""
        match self.state:
            case Unlisted():
                pass
            case Listing(asked=asked) | Streaming(asked=asked):
                self.state = asked
            case Watching():
                self._end_watch()
            case _:
                assert_never(self.state)
        return [Failed(kind, message)]

    def fell_silent(self) -> list[Output[T]]:
        """A streaming list was silent for longer than the patience of its Ask."""
        return self._without_streaming()

    def relist(self, cause: Cause) -> None:
        """List again, not older than what was seen, whatever the watch is doing."""
        match self.state:
            case Unlisted():
                pass
            case Listing(asked=asked) | Streaming(asked=asked):
                self.state = asked
            case Watching(revision=revision):
                self.state = Unlisted(revision, cause)
            case _:
                assert_never(self.state)

    # ---------------------------------------------------------------------------------------------- events

    def _changed(self, deleted: bool, item: T | Unreadable) -> list[Output[T]]:
        if isinstance(item, Unreadable):
            return self._unread("unreadable", f"an object of the watch cannot be read: {item.message}")
        match self.state:
            case Watching(revision=revision, torn=torn):
                self.state = Watching(item.metadata.resource_version or revision, torn)
                return [Delete(item) if deleted else Apply(item)]
            case Streaming():
                return [InitDelete(item) if deleted else InitApply(item)]
            case Unlisted() | Listing():  # a line outside a watch: the reflector sends none
                return []
            case _:
                assert_never(self.state)

    def _bookmark(self, bookmark: objects.Bookmark | Unreadable) -> list[Output[T]]:
        if isinstance(bookmark, Unreadable) or not bookmark.metadata.resource_version:
            return self._unread("unreadable", "a bookmark names no resourceVersion")
        metadata = bookmark.metadata
        match self.state:
            case Watching(torn=torn):
                self.state = Watching(metadata.resource_version, torn)
                return []
            case Streaming() if (metadata.annotations or {}).get(objects.INITIAL_EVENTS_END) == "true":
                self.state = Watching(metadata.resource_version)
                return [InitDone()]
            case Streaming() | Unlisted() | Listing():
                return []
            case _:
                assert_never(self.state)

    def _error_event(self, status: objects.Status | Unreadable) -> list[Output[T]]:
        if isinstance(status, Unreadable):
            return self._unread("error_event", "the watch holds an ERROR that is no Status")
        code = status.code or 0
        if isinstance(self.state, Streaming) and code in _NO_STREAMING and not _blames_revision(code, status):
            return self._without_streaming()
        return self._refuse(code, status, None)

    def _refuse(self, code: int, status: objects.Status, retry_after_secs: float | None) -> list[Output[T]]:
        """The server said no: whether the revision is at fault decides where to go on."""
        failed = _failure(code, status, retry_after_secs)
        outputs = self.broke(failed.kind, failed.message)
        if _blames_revision(code, status):
            self.state = Unlisted(None, _CAUSES.get(failed.kind, "revision_refused"))
        return [failed if isinstance(output, Failed) else output for output in outputs]

    def _unread(self, kind: Kind, message: str) -> list[Output[T]]:
        """A line said nothing that we understand. The watch goes on, but what it meant must not be missed for good."""
        if isinstance(self.state, Watching):
            self.state = Watching(self.state.revision, torn=True)
        return [Failed(kind, message)]

    def _end_watch(self) -> None:
        if isinstance(self.state, Watching) and self.state.torn:
            self.state = Unlisted(self.state.revision, "unreadable")

    def _without_streaming(self) -> list[Output[T]]:
        """List plainly from now on. No error: nothing is wrong with the server."""
        self._streaming = False
        if isinstance(self.state, Streaming):
            self.state = self.state.asked
        return []


# -------------------------------------------------------------------------------------- requests, refusals

_NO_STREAMING: Final = frozenset((400, 404, 405, 406, 415, 422, 500, 501))  # a sick server also fails the plain list
_ENDED_EARLY: Final = Failed("ended_early", "the API server ended the watch at once")
_CAUSES: Final[dict[Kind, Cause]] = {"expired": "expired", "too_large_revision": "too_large_revision"}


def _ask_list(asked: Unlisted) -> Ask:
    """Unpaged: with a revision the API server answers from its cache, whole."""
    match asked.revision:
        case None:
            return Ask({}, watch=False)
        case "0":
            return Ask({"resourceVersion": "0"}, watch=False)
        case revision:
            return Ask({"resourceVersion": revision, "resourceVersionMatch": "NotOlderThan"}, watch=False)


def _ask_stream(asked: Unlisted) -> Ask:
    revision = {} if asked.revision is None else {"resourceVersion": asked.revision}
    initial = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
    return Ask({**_WATCH, **initial, **revision}, watch=True, patience_secs=STREAM_PATIENCE_SECS)


def _ask_watch(revision: str) -> Ask:
    return Ask({**_WATCH, "resourceVersion": revision}, watch=True)


_WATCH: Final = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(WATCH_SECS)}


def _failure(code: int, status: objects.Status, retry_after_secs: float | None) -> Failed:
    text = f"{code} {status.reason or 'without a reason'}: {(status.message or 'no message')[:300]}"
    if retry_after_secs is None and status.details is not None:
        retry_after_secs = status.details.retry_after_seconds
    if retry_after_secs is not None:
        retry_after_secs = min(max(retry_after_secs, 0.0), LONGEST_RETRY_AFTER_SECS)
    return Failed(_kind(code, status), f"the API server answered {text}", retry_after_secs)


def _kind(code: int, status: objects.Status) -> Kind:
    if code == 410 or status.reason in ("Expired", "Gone"):
        return "expired"
    if code == 504 and _too_large(status):
        return "too_large_revision"
    if code == 429:
        return "throttled"
    return "unauthorized" if code in (401, 403) else "refused"


def _blames_revision(code: int, status: objects.Status) -> bool:
    """Whether asking again with this revision would fail again."""
    if _kind(code, status) in ("expired", "too_large_revision"):
        return True
    return code in (400, 422) or (code == 500 and "resourceVersion" in (status.message or ""))


def _too_large(status: objects.Status) -> bool:
    causes = (status.details.causes if status.details is not None else None) or ()
    return any(cause.reason == "ResourceVersionTooLarge" for cause in causes) or (
        "Too large resource version" in (status.message or "")
    )
