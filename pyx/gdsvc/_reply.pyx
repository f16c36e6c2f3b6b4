"""Replies as they arrive on one connection, one after the other: bytes in, head and body out. Does no I/O.

The framing is llhttp's, in its strict mode; what it cannot tell (HEAD, the end of a body without a length) is here. Of
a body in chunks it gets the head, and then the last chunk and what is not plain: see Chunks.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from gdsvc._chunks cimport Chunks

cdef extern from "string.h" nogil:
    void *memmem(const void *, size_t, const void *, size_t)  # of GNU, BSD and musl alike

import httptools

cdef Py_ssize_t HEADER_OVERHEAD = 4  # ": " and the end of the line


@cython.final
cdef class ReplyReader:
    """Call `begin` for each request, then `feed` what comes and `end` where the stream ends.

    `status` is 0 until the final head is whole; interim replies are skipped. `held` counts the bytes that `take`
    would give. `keep_alive` says whether the connection can carry another exchange; look at it once `complete`.
    `malformed` is the error to raise where the bytes are no reply; it takes a text.
    """

    def __init__(self, Py_ssize_t most_head_bytes, malformed):
        self.most_head_bytes = most_head_bytes
        self.malformed = malformed
        self.parser = httptools.HttpResponseParser(self)
        self.parts = []
        self.chunks = Chunks()
        self.begin_anew(False)

    def begin(self, *, bint head_only) -> None:
        """Forgets the reply before; `headers` and `trailers` of it stay with who has them."""
        self.begin_anew(head_only)

    cdef begin_anew(self, bint head_only):
        if self.parser_is_spent:
            self.parser = httptools.HttpResponseParser(self)
        self.parser_is_spent = self.head_only = head_only
        self.begun = self.continued = self.complete = self.keep_alive = self.is_chunked = self.is_plain = False
        self.status = self.codings = 0
        self.held = self.trailers_size = self.unproductive = 0
        self.headers = []
        self.trailers = []
        if self.parts:
            self.parts.clear()

    cpdef feed(self, bytes data):
        """Takes what arrived while the reply is not complete. Raises `malformed`; what came before can still be taken.
        """
        cdef Py_ssize_t head_size = 0
        if not self.begun:  # else the end of the head may lie across two packets, and what looks like it be in the body
            head_size = size_of_chunked_head(data)
        self.begun = True
        self.unproductive += len(data)
        if self.is_plain:
            self.take_chunks(data, 0)
        elif head_size:
            self.parse(data[:head_size])
            self.begin_chunks()
            self.go_on(data, head_size)
        else:
            self.parse(data)
        if self.complete:
            if self.head_only and not data.endswith(b"\r\n\r\n"):  # a part of a body that a HEAD must not have
                self.keep_alive = False
        elif self.unproductive > self.most_head_bytes:
            raise self.malformed(f"its head or trailers are longer than {self.most_head_bytes} bytes")

    cdef parse(self, bytes data):
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError as error:
            self.stop(error)

    cdef begin_chunks(self):
        """Where the parser has seen a head and nothing else, the body may be plain chunks."""
        if self.status and self.is_chunked and not self.complete:
            self.is_plain = True
            self.chunks.begin()

    cdef go_on(self, bytes data, Py_ssize_t at):
        """Takes what follows a head."""
        if at == len(data):
            return
        if self.is_plain:
            self.take_chunks(data, at)
        else:
            self.parse(data[at:])

    cdef take_chunks(self, bytes data, Py_ssize_t at):
        cdef bytes held = self.chunks.take(data, at)
        if held:
            self.on_body(held)
        if self.chunks.is_broken():
            raise self.malformed("a chunk does not end where its size says")
        if self.chunks.is_stopped():
            self.is_plain = False
            self.parse(self.chunks.rest(data))

    def end(self) -> bool:
        """The stream has ended; says whether that, or what came before, made the reply complete."""
        if self.status and not self.is_framed():
            self.complete = True
        self.keep_alive = False
        return self.complete

    def close(self) -> None:
        """Nothing is fed any more: the parser goes, which calls back and would make garbage of a cycle of both."""
        self.parser = None

    def take(self) -> bytes:
        """The body as far as it came and was not taken yet, in one piece."""
        return self.taken()

    cdef bytes taken(self):
        data = self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)
        self.parts.clear()
        self.held = 0
        return data

    cdef stop(self, error):
        if self.complete:  # the reply itself is sound; something follows that belongs to none
            self.keep_alive = False
            return
        cause = error.__context__
        raise (cause if isinstance(cause, self.malformed) else self.malformed(f"no HTTP/1.1: {error}")) from None

    cdef bint is_framed(self) except *:
        """Whether the body ends by a length or by its last chunk; else the end of the stream ends it."""
        return self.codings > 0 or any([name.lower() == b"content-length" for name, _ in self.headers])

    cdef Py_ssize_t size_of_headers(self) except -1:
        return sum([len(name) + len(value) + HEADER_OVERHEAD for name, value in self.headers])

    # ------------------------------------------------------------------------- called by the parser

    def on_message_begin(self) -> None:
        """llhttp has seen the first byte of a reply."""
        if self.complete:
            raise self.malformed("something follows the reply")

    def on_header(self, bytes name not None, bytes value not None) -> None:
        """llhttp has seen a whole header or trailer."""
        if self.status:
            self.trailers.append((name, value))
            self.trailers_size += len(name) + len(value) + HEADER_OVERHEAD
            if self.trailers_size > self.most_head_bytes:
                raise self.malformed(f"its trailers are longer than {self.most_head_bytes} bytes")
            return
        self.headers.append((name, value))
        if len(name) == 17 and name.lower() == b"transfer-encoding":
            self.codings += 1
            self.is_chunked = value.rstrip(b" ").lower() == b"chunked"  # llhttp takes a tab behind it for a name

    def on_headers_complete(self) -> None:
        """llhttp has seen the end of a head."""
        cdef int status = self.parser.get_status_code()
        if status < 200:
            self.interim(status)
            return
        if self.codings and not (self.codings == 1 and self.is_chunked):
            raise self.malformed("its transfer coding is not chunked, once")
        if self.unproductive > self.most_head_bytes and self.size_of_headers() > self.most_head_bytes:
            raise self.malformed(f"its headers are longer than {self.most_head_bytes} bytes")
        self.status = status
        self.unproductive = 0
        self.keep_alive = self.parser.should_keep_alive()
        if self.head_only:
            self.complete = True

    cdef interim(self, int status):
        if status < 100:
            raise self.malformed("its status is below 100")
        if status == 101:
            raise self.malformed("it switches protocols, which was not asked for")
        self.continued |= status == 100
        self.headers = []
        self.codings = 0

    def on_body(self, bytes part not None) -> None:
        """llhttp has seen a part of the body."""
        if self.complete:
            raise self.malformed("something follows the reply")
        self.parts.append(part)
        self.held += len(part)
        self.unproductive = 0

    def on_message_complete(self) -> None:
        """llhttp has seen the end of a reply."""
        if self.status:
            self.complete = True


cdef Py_ssize_t size_of_chunked_head(bytes data) noexcept:
    """Where the first head in `data` ends, if it may be one of a body in chunks; else 0."""
    cdef const char *letters = PyBytes_AS_STRING(data)
    cdef const char *end = <const char *> memmem(letters, PyBytes_GET_SIZE(data), b"\r\n\r\n", 4)
    if end is NULL or memmem(letters, end - letters, b"hunked", 6) is NULL:
        return 0
    return end - letters + 4
