"""What came back for one request, and the few things that every caller wants to know of it."""

from collections.abc import Mapping

import msgspec

MOST_MESSAGE_CHARACTERS = 300  # of a message that somebody else wrote: enough to understand, too little to fill a log


class _Problem(msgspec.Struct):
    message: str


class _ProblemBody(msgspec.Struct):
    error: _Problem


_PROBLEM = msgspec.json.Decoder(_ProblemBody)


class Answer(msgspec.Struct, frozen=True):
    """A whole response. The names of `headers` are in lower case; `url` is the base URL that answered.

    `body` is as the service made it: content codings are undone.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    url: str

    @property
    def message(self) -> str:
        """The service's own sentence where it is an error in the contract's shape, else the status."""
        try:
            text = _PROBLEM.decode(self.body).error.message
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return f"status {self.status}"
        return harmless(text) or f"status {self.status}"

    @property
    def unrouted(self) -> bool:
        """Whether it is a 404 or 405 that no service worded: a proxy has no route to one, say."""
        if self.status not in (404, 405):
            return False
        try:
            _PROBLEM.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return True
        return False

    @property
    def retry_after_secs(self) -> float | None:
        """Retry-After in seconds; None where absent, or a date, which would be told by another machine's clock."""
        text = self.headers.get("retry-after", "").strip()
        return float(text) if text.isascii() and text.isdigit() and len(text) <= 9 else None


def harmless(text: str) -> str:
    """`text` on one line, without control and bidirectional characters, cut to MOST_MESSAGE_CHARACTERS."""
    cut = text if len(text) <= MOST_MESSAGE_CHARACTERS else text[:MOST_MESSAGE_CHARACTERS] + "…"
    return "".join(character if character.isprintable() else " " for character in cut)
