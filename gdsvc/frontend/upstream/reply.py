"""Readers of replies as this client has them: what they refuse is Malformed."""

from gdsvc._reply import ReplyReader
from gdsvc.frontend.upstream.failures import Malformed

Headers = list[tuple[bytes, bytes]]


def reply_reader(most_head_bytes: int) -> ReplyReader:
    """For one connection; `most_head_bytes` is for a head with the interim ones before it, and for trailers."""
    return ReplyReader(most_head_bytes, Malformed)
