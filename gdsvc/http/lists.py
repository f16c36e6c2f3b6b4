"""Answers list requests: entity tags, content codings, and each list body made and compressed once a revision."""

import asyncio
import gzip
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec
import xxhash
import zstandard

from gdsvc.asgi.negotiation import Coding, content_coding, none_match
from gdsvc.asgi.responses import Response
from gdsvc.asgi.types import Scope, header
from gdsvc.pool_discovery.directory import EVERYTHING, EncodedDirectory, EncodedList, Filter
from gdsvc.pool_discovery.watch import Completeness

COMPRESSED_FROM: Final = 1024  # bytes; below that the headers cost more than is saved
OFF_LOOP_FROM: Final = 64 * 1024  # bytes; below that a body is made and compressed in well under a millisecond
FILTERS_KEPT: Final = 64  # lists by filter that are kept for the current revision,
FILTERED_BYTES_KEPT: Final = 64 * 1024 * 1024  # and their bytes before compression, in all
ZSTD_LEVEL: Final = 3
GZIP_LEVEL: Final = 5  # 6 takes half as long again for one part in a hundred

_ENCODER = msgspec.json.Encoder()


class _ListBody:
    """The body of one list at one revision, in every coding it was asked for; each is made once."""

    def __init__(self, lists: "Lists", parts: EncodedList, head: bytes, tail: bytes) -> None:
        self._lists = lists
        self._parts = parts
        self._head = head
        self._tail = tail
        self.size = len(head) + parts.size + len(tail)
        self._made: dict[Coding, asyncio.Task[bytes]] = {}
        self._done: dict[Coding, bytes] = {}

    async def coded(self, coding: Coding) -> bytes:
        """The body in `coding`; who asks while it is being made waits for the same one."""
        done = self._done.get(coding)
        if done is not None:
            return done
        task = self._made.get(coding)
        if task is None:
            task = self._made[coding] = asyncio.create_task(self._make(coding))
        try:
            return await asyncio.shield(task)
        finally:
            self._made.pop(coding, None)

    async def _make(self, coding: Coding) -> bytes:
        if coding == "identity":
            body = await self._lists.run(self.size, self._join)
        else:
            plain = await self.coded("identity")
            body = await self._lists.run(self.size, lambda: _COMPRESSORS[coding](plain))
        self._lists.encodings[coding] += 1
        self._done[coding] = body
        return body

    def _join(self) -> bytes:
        return self._parts.join(self._head, self._tail)


class Lists:
    """The lists of one directory. `member` is the name of their array, `epoch` tells this process from others.

    Bodies above OFF_LOOP_FROM are made in `executor`, so that heartbeats do not wait for them.
    """

    def __init__(self, directory: EncodedDirectory, member: str, epoch: str, executor: ThreadPoolExecutor) -> None:
        self._directory = directory
        self._member = member
        self._epoch = epoch
        self._executor = executor
        self._revision = -1
        self._bodies: dict[Filter, _ListBody] = {}
        self._filtered_bytes = 0
        self.encodings: dict[Coding, int] = {"identity": 0, "zstd": 0, "gzip": 0}

    async def respond(self, scope: Scope, where: Filter = EVERYTHING) -> Response:
        """The list of what matches `where`, or 304. Raises Unavailable before the directory's first sync."""
        revision, completeness = self._directory.view()
        body = self._body(revision, completeness, where)
        coding = content_coding(header(scope, b"accept-encoding")) if body.size >= COMPRESSED_FROM else "identity"
        etag = self._etag(revision, coding, where)
        headers = [(b"etag", etag), (b"vary", b"accept-encoding")]
        if_none_match = header(scope, b"if-none-match")
        if if_none_match is not None and none_match(if_none_match, etag):
            return Response(304, headers=tuple(headers))
        if coding != "identity":
            headers.append((b"content-encoding", coding.encode()))
        return Response(200, await body.coded(coding), headers=tuple(headers))

    async def run(self, size: int, make: Callable[[], bytes]) -> bytes:
        """`make()`, here or, where `size` is large, in the executor."""
        if size < OFF_LOOP_FROM:
            return make()
        return await asyncio.get_running_loop().run_in_executor(self._executor, make)

    def _body(self, revision: int, completeness: Completeness, where: Filter) -> _ListBody:
        if revision != self._revision:
            self._revision = revision
            self._bodies.clear()
            self._filtered_bytes = 0
        body = self._bodies.get(where)
        if body is None:
            body = _ListBody(self, self._directory.encoded(where), *self._envelope(completeness))
            if where == EVERYTHING:
                self._bodies[where] = body
            elif len(self._bodies) < FILTERS_KEPT and self._filtered_bytes + body.size <= FILTERED_BYTES_KEPT:
                self._bodies[where] = body
                self._filtered_bytes += body.size
        return body

    def _envelope(self, completeness: Completeness) -> tuple[bytes, bytes]:
        member = self._member.encode()
        if completeness is Completeness.EXACT:
            return b'{"complete":true,"' + member + b'":[', b"]}"
        incomplete = [
            {"name": source.name, "complete": False, "as_of": source.as_of}
            for source in self._directory.sources()
            if not source.complete
        ]
        return b'{"complete":false,"' + member + b'":[', b'],"sources":' + _ENCODER.encode(incomplete) + b"}"

    def _etag(self, revision: int, coding: Coding, where: Filter) -> bytes:
        tag = f"{self._epoch}-{revision}-{coding}"
        if where != EVERYTHING:
            tag += "-" + filter_hash(where)
        return f'"{tag}"'.encode()


def filter_hash(where: Filter) -> str:
    """16 hex digits that tell filters apart, the order of their values left out."""
    values = [sorted(value) if value is not None else None for value in (where.models, where.regions, where.site_ids)]
    return xxhash.xxh3_64_hexdigest(_ENCODER.encode(values))


def _zstd(body: bytes) -> bytes:
    return zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(body)


def _gzip(body: bytes) -> bytes:
    return gzip.compress(body, GZIP_LEVEL, mtime=0)  # no time in it: equal lists give equal bytes


_COMPRESSORS: Final[dict[Coding, Callable[[bytes], bytes]]] = {"zstd": _zstd, "gzip": _gzip}
