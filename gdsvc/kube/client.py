"""The only network code towards the API server: GETs whose answer is read as it arrives, and writes.

Decides timeouts, bounds and how a failure is named; what an answer means is its reader's matter. No secret is in an
error: the texts here are our own, with the operating system's reason at most.
"""

import asyncio
import os
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Literal, Protocol, Self
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from gdsvc.errors import GdsvcError

CONNECT_SECS: Final = 10.0
READ_SECS: Final = 75.0  # above a watch's 50 s; with CONNECT_SECS below 90 s, within which a dead server must show
MAX_REFUSAL_BYTES: Final = 1 << 16  # of the body that explains a refusal
MAX_ANSWER_BYTES: Final = 4 << 20  # to a write: the object, which etcd holds up to 1.5 MiB of
_TIMEOUT: Final = aiohttp.ClientTimeout(
    total=None, connect=CONNECT_SECS, sock_connect=CONNECT_SECS, sock_read=READ_SECS
)
_HEADERS: Final = {
    "Accept": "application/json",
    "Accept-Encoding": "identity",  # the network is near, and nothing can grow beyond the bounds while unpacked
    "User-Agent": "gdsvc",
}


class Unreachable(GdsvcError):
    """No answer, or one that broke off. `kind` is a metric's label."""

    def __init__(
        self, kind: Literal["connection", "timeout", "tls", "credentials", "unreadable"], message: str
    ) -> None:
        super().__init__(message)
        self.kind: Literal["connection", "timeout", "tls", "credentials", "unreadable"] = kind


class Settings(Protocol):
    """Where the API server is and how its certificate is checked: kubernetes_asyncio's Configuration has it."""

    host: str
    ssl_ca_cert: str | None
    cert_file: str | None
    key_file: str | None
    verify_ssl: bool
    tls_server_name: str | None
    proxy: str | None


class Credentials(Protocol):
    """What proves who asks; gdsvc.kube.credentials has the real ones. Methods raise GdsvcError when it cannot."""

    @property
    def settings(self) -> Settings: ...
    async def authorization(self) -> str | None:
        """The Authorization header's value."""
        ...

    async def renew(self) -> None:
        """The server did not accept what it was given."""
        ...


class Reply:
    """The head of an answer, and its body to be read once, inside the `async with` that gave it."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.retry_after_secs = _retry_after(response.headers.get("Retry-After", ""))

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives. Raises Unreachable where it breaks off."""
        while True:
            with _named():
                chunk = await self._response.content.readany()
            if not chunk:
                return
            yield chunk

    async def beginning(self) -> bytes:
        """The body's first MAX_REFUSAL_BYTES."""
        kept = bytearray()
        async for chunk in self.chunks():
            kept += chunk
            if len(kept) >= MAX_REFUSAL_BYTES:
                break
        return bytes(kept[:MAX_REFUSAL_BYTES])


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer, of whatever status; `retry_after_secs` is the server's wish."""

    status: int
    body: bytes
    retry_after_secs: float | None


class Client:
    """`async with Client(credentials) as client:`, one to a reflector or to a writer of many objects.

    New certificates replace its session; what is in flight then fails, and may be asked again.
    """

    def __init__(self, credentials: Credentials, *, read_secs: float = READ_SECS) -> None:
        self._credentials = credentials
        self._renewing = asyncio.Lock()
        self._renewals = 0
        self._timeout = aiohttp.ClientTimeout(connect=CONNECT_SECS, sock_connect=CONNECT_SECS, sock_read=read_secs)
        self._session: aiohttp.ClientSession | None = None
        self._files: tuple[str | None, ...] = ()  # that the session's TLS was made of

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._drop_session()

    @asynccontextmanager
    async def get(self, path: str, query: Mapping[str, str]) -> AsyncGenerator[Reply, None]:
        """Asks once, follows no redirect. Raises Unreachable; what the block itself raises passes as it is."""
        response = await self._ask("GET", path, query)
        try:
            yield Reply(response)
        finally:
            response.close()

    async def send(self, method: str, path: str, body: bytes = b"", content_type: str = "application/json") -> Answer:
        """Writes once and reads the answer to its end, so that the connection can serve the next write.

        Raises Unreachable. What was sent may have been done all the same, so send only what may be done twice.
        """
        response = await self._ask(method, path, {}, body, content_type)
        reply, body_read = Reply(response), bytearray()
        try:
            async for chunk in reply.chunks():
                body_read += chunk
                if len(body_read) > MAX_ANSWER_BYTES:
                    raise Unreachable("unreadable", f"the answer is longer than {MAX_ANSWER_BYTES} bytes")
        except BaseException:  # cancellation too: its connection is in the middle of an answer
            response.close()
            raise
        return Answer(reply.status, bytes(body_read), reply.retry_after_secs)

    async def _ask(
        self, method: str, path: str, query: Mapping[str, str], body: bytes | None = None, content_type: str = ""
    ) -> aiohttp.ClientResponse:
        """The head of an answer that is the API server's. A 401 has renewed the credentials."""
        renewals = self._renewals
        headers = await self._headers() | ({} if body is None else {"Content-Type": content_type})
        session = await self._current_session()
        try:
            response = await self._exchange(session, method, path, query, headers, body)
        except Unreachable as error:
            if error.kind == "tls" and self._session is session:
                await self._drop_session()  # the files behind it may have been replaced
            raise
        try:
            if response.status == 401:
                await self._renew(renewals)
            if response.status == 200 and response.content_type == "text/html":
                raise Unreachable("unreadable", "the answer is HTML: something else listens there")
        except BaseException:
            response.close()
            raise
        return response

    async def _exchange(  # noqa: PLR0913, PLR0917 - the parts of a request
        self,
        session: aiohttp.ClientSession,
        method: str,
        path: str,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes | None,
    ) -> aiohttp.ClientResponse:
        settings = self._credentials.settings
        with _named():
            url = URL(settings.host.rstrip("/") + path + ("?" + urlencode(query) if query else ""), encoded=True)
            return await session.request(
                method,
                url,
                data=body,
                headers=headers,
                allow_redirects=False,
                proxy=settings.proxy,
                server_hostname=settings.tls_server_name,
            )

    async def _renew(self, renewals: int) -> None:
        """Unless they were renewed since the request: many writes that are refused together renew once."""
        async with self._renewing:
            if self._renewals != renewals:
                return
            self._renewals += 1
            try:
                await self._credentials.renew()
            except GdsvcError as error:
                raise Unreachable("credentials", str(error)) from None

    async def _headers(self) -> dict[str, str]:
        try:
            authorization = await self._credentials.authorization()
        except GdsvcError as error:
            raise Unreachable("credentials", str(error)) from None
        return _HEADERS if authorization is None else {**_HEADERS, "Authorization": authorization}

    async def _current_session(self) -> aiohttp.ClientSession:
        settings = self._credentials.settings
        files = (settings.ssl_ca_cert, settings.cert_file, settings.key_file)
        session = self._session
        if session is None or files != self._files:
            await self._drop_session()
            if self._session is None:  # or another request has made it meanwhile
                self._session, self._files = _session(settings, self._timeout), files
            session = self._session
        return session

    async def _drop_session(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()


class _Connector(aiohttp.TCPConnector):
    """Aborts a connection that is given up amid an exchange, whether the head of its answer was there or not.

    TLS would first wait for the peer's farewell, and so outlive our own.
    """

    def _release(self, key: Any, protocol: Any, *, should_close: bool = False) -> None:
        if (should_close or protocol.should_close) and protocol.transport is not None:
            protocol.transport.abort()
        super()._release(key, protocol, should_close=should_close)


def _session(settings: Settings, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientSession:
    """Without cookies, and without the environment: aiohttp would also take a .netrc from it, and then refuse both."""
    tls = _tls(settings) if settings.host.startswith("https:") else True
    return aiohttp.ClientSession(connector=_Connector(ssl=tls), cookie_jar=aiohttp.DummyCookieJar(), timeout=timeout)


def _tls(settings: Settings) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=settings.ssl_ca_cert)
        if settings.cert_file:
            context.load_cert_chain(settings.cert_file, keyfile=settings.key_file)
    except OSError as error:  # ssl.SSLError is one
        raise Unreachable("tls", f"cannot read the certificates: {_os_reason(error)}") from None
    # Python 3.13 began to refuse cluster CAs without an Authority Key Identifier, which Kubernetes' clients accept.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    if not settings.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


@contextmanager
def _named() -> Generator[None, None, None]:
    """Gives what aiohttp raises its kind."""
    try:
        yield
    except aiohttp.ClientSSLError as error:
        raise Unreachable("tls", f"TLS failed: {_os_reason(error)}") from None
    except TimeoutError:
        raise Unreachable("timeout", "the API server is silent") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:  # ValueError: a URL or header that cannot be sent
        raise Unreachable("connection", f"no connection to the API server: {_os_reason(error)}") from None


def _os_reason(error: Exception) -> str:
    """The operating system's words, never aiohttp's: those can hold a URL with its user."""
    inner = getattr(error, "os_error", None) or getattr(error, "certificate_error", None) or error
    if isinstance(inner, ssl.SSLError):
        return inner.reason or type(inner).__name__
    return os.strerror(inner.errno) if isinstance(inner, OSError) and inner.errno else type(error).__name__


def _retry_after(value: str) -> float | None:
    """Seconds; the date form is not used by API servers."""
    return float(value) if value.isascii() and value.isdigit() else None
