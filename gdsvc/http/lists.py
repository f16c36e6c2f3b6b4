"""Answers list requests: entity tags, content codings, and bodies made and compressed once a revision at most."""

import asyncio
import gzip
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec
import xxhash
import zstandard

from gdsvc.asgi.negotiation import Coding, content_coding, none_match
from gdsvc.asgi.responses import Response
from gdsvc.asgi.types import Scope, header
from gdsvc.pool_discovery.directory import EVERYTHING, EncodedDirectory, Filter
from gdsvc.pool_discovery.watch import Completeness

COMPRESSED_FROM: Final = 1024  # bytes; below that the headers cost more than is saved
OFF_LOOP_FROM: Final = 64 * 1024  # bytes; below that a body is made and compressed in well under a millisecond
FILTERS_KEPT: Final = 64  # lists by filter that are kept,
FILTERED_BYTES_KEPT: Final = 64 * 1024 * 1024  # and the bytes of their bodies, in all codings
ZSTD_LEVEL: Final = 3
GZIP_LEVEL: Final = 5  # 6 takes half as long again for one part in a hundred

_ENCODER = msgspec.json.Encoder()


class _Made(msgspec.Struct, frozen=True):
    """A list body as it was made for one revision, and the responses that give it."""

    revision: int
    full: Response
    unchanged: Response
    etag: bytes


class _List:
    """One list (all, or what a filter leaves): its newest body in each coding that was asked for."""

    def __init__(self, where: Filter) -> None:
        self.where = where
        self.made: dict[Coding, _Made] = {}
        self.making = asyncio.Lock()

    @property
    def kept_bytes(self) -> int:
        """What the bodies take."""
        return sum(len(made.full.body) for made in self.made.values())


class Lists:
    """The lists of one directory. `member` is the name of their array, `epoch` tells this process from others.

    Bodies above OFF_LOOP_FROM are made in `executor`, so that heartbeats do not wait for them. While one is made, who
    comes waits for the next, which serves all of them: a list that changes all the time is never made twice at once.
    """

    def __init__(self, directory: EncodedDirectory, member: str, epoch: str, executor: ThreadPoolExecutor) -> None:
        self._directory = directory
        self._member = member
        self.epoch = epoch
        self._executor = executor
        self._all = _List(EVERYTHING)
        self._filtered: OrderedDict[Filter, _List] = OrderedDict()  # the one used last is the last
        self.encodings: dict[Coding, int] = {"identity": 0, "zstd": 0, "gzip": 0}

    def view(self) -> int:
        """The revision now. Raises Unavailable before the directory's first sync."""
        return self._directory.view()[0]

    async def current(self, where: Filter = EVERYTHING) -> tuple[int, bytes]:
        """The body of the list of what matches `where`, uncompressed, and its revision. Raises Unavailable."""
        revision = self.view()
        members = self._list(where)
        made = members.made.get("identity")
        if made is None or made.revision < revision:
            made = await self._make(members, "identity", revision)
        return made.revision, made.full.body

    async def respond(self, scope: Scope, where: Filter = EVERYTHING) -> Response:
        """The list of what matches `where`, or 304. Raises Unavailable before the directory's first sync."""
        revision, _ = self._directory.view()
        accept_encoding = header(scope, b"accept-encoding")
        wanted: Coding = "identity" if accept_encoding is None else content_coding(accept_encoding)
        members = self._all if where is EVERYTHING else self._list(where)
        made = members.made.get(wanted)
        if made is None or made.revision < revision:
            made = await self._make(members, wanted, revision)
        if_none_match = header(scope, b"if-none-match")
        if if_none_match is None or not (if_none_match == made.etag or none_match(if_none_match, made.etag)):
            return made.full
        return made.unchanged

    def _list(self, where: Filter) -> _List:
        if where == EVERYTHING:
            return self._all
        members = self._filtered.get(where)
        if members is None:
            members = self._filtered[where] = _List(where)
        self._filtered.move_to_end(where)
        return members

    async def _make(self, members: _List, wanted: Coding, at_least: int) -> _Made:
        async with members.making:
            made = members.made.get(wanted)
            if made is not None and made.revision >= at_least:  # made while this request waited
                return made
            revision, completeness = self._directory.view()
            plain = members.made.get("identity")
            if plain is None or plain.revision < revision:
                size, make = self._document(members.where, completeness)
                plain = await self._coded("identity", revision, members, size, make)
            body, size = plain.full.body, len(plain.full.body)
            made = plain
            if wanted != "identity" and size >= COMPRESSED_FROM:
                made = await self._coded(wanted, revision, members, size, lambda: _COMPRESSORS[wanted](body))
            members.made[wanted] = made
            self._drop_beyond_limits()
            return made

    async def _coded(
        self, coding: Coding, revision: int, members: _List, size: int, make: Callable[[], bytes]
    ) -> _Made:
        """Runs `make`, here or, where it has much to do, in the executor; the body and its responses."""
        if size < OFF_LOOP_FROM:
            body = make()
        else:
            body = await asyncio.get_running_loop().run_in_executor(self._executor, make)
        self.encodings[coding] += 1
        etag = self._etag(revision, coding, members.where)
        headers = ((b"etag", etag), (b"vary", b"accept-encoding"))
        coded = () if coding == "identity" else ((b"content-encoding", coding.encode()),)
        made = _Made(revision, Response(200, body, headers=(*headers, *coded)), Response(304, headers=headers), etag)
        members.made[coding] = made
        return made

    def _drop_beyond_limits(self) -> None:
        """Forgets the filters that were not asked for longest."""
        kept = sum(members.kept_bytes for members in self._filtered.values())
        while self._filtered and (len(self._filtered) > FILTERS_KEPT or kept > FILTERED_BYTES_KEPT):
            _, dropped = self._filtered.popitem(last=False)
            kept -= dropped.kept_bytes

    def _document(self, where: Filter, completeness: Completeness) -> tuple[int, Callable[[], bytes]]:
        """About how many bytes a body has, and what makes it, in any thread."""
        parts, envelope = self._directory.encoded(where), self._envelope(completeness)
        return parts.size + sum(map(len, envelope)), lambda: parts.join(*envelope)

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
        tag = f"{self.epoch}-{revision}-{coding}"
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
