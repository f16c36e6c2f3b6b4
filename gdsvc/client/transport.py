"""An aiohttp session without the defaults that hurt: no cookies, no redirects, no total time, our own TLS context.

Sends one request to one URL; a connection that the server had closed meanwhile is no failure.
"""

import asyncio
import os
import ssl
from types import SimpleNamespace, TracebackType
from typing import Final, Self

import aiohttp
from msgspec import Struct
from yarl import URL

from gdsvc import __version__
from gdsvc.client.answer import Answer
from gdsvc.client.attempts import Foreign, NoToken, check_discovery
from gdsvc.client.errors import InvalidOptions
from gdsvc.client.options import Options, bearer

MOST_BODY_BYTES: Final = 256 * 1024 * 1024  # a list of 100,000 ordinary pools is 40 MB


class Request(Struct, frozen=True):
    """What is sent. `target` is path and query, percent-encoded; `read_secs` bounds the silence between two reads."""

    method: str
    target: str
    body: bytes | None
    headers: dict[str, str]
    read_secs: float | None = None


class _Sending:
    """Filled by aiohttp while it sends."""

    def __init__(self) -> None:
        self.reused = False


class Transport:
    """The connections of one client. Entering raises InvalidOptions for TLS files that cannot be used."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        context = await asyncio.to_thread(tls_context, self._options) if self._options.speaks_tls else True
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context, limit=0),  # watches must not take the places of requests
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": f"gdsvc/{__version__}"},
            trace_configs=[_tracing()],
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def send(self, base: str, request: Request) -> aiohttp.ClientResponse:
        """The head of the response, to be closed by the caller. Raises FAILURES, and InvalidOptions for a bad token.

        A request that met a closed connection is sent again whatever its method: all of them may be repeated here.
        """
        if self._session is None:
            raise RuntimeError("the client was not entered")
        headers = request.headers | self._authorization()
        while True:
            sending = _Sending()
            try:
                return await self._session.request(
                    request.method,
                    URL(base + request.target, encoded=True),
                    data=request.body,
                    headers=headers,
                    allow_redirects=False,
                    timeout=aiohttp.ClientTimeout(
                        total=None, sock_connect=self._options.connect_timeout_secs, sock_read=request.read_secs
                    ),
                    trace_request_ctx=sending,
                )
            except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
                if not sending.reused:  # each turn takes one closed connection out of the pool, so this ends
                    raise

    def _authorization(self) -> dict[str, str]:
        try:
            value = bearer(self._options.token)
        except InvalidOptions:
            raise
        except Exception as error:  # noqa: BLE001 - the caller's code; a token that cannot be read now may be later
            raise NoToken(error) from None
        return {"Authorization": value} if value else {}


async def read_answer(response: aiohttp.ClientResponse, base: str) -> Answer:
    """The whole response. Raises Foreign, also for a body that no list fills, and FAILURES."""
    parts: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        size += len(chunk)
        if size > MOST_BODY_BYTES:
            response.close()
            raise Foreign(f"its answer is longer than {MOST_BODY_BYTES} bytes")
        parts.append(chunk)
    headers = {name.lower(): value for name, value in response.headers.items()}
    answer = Answer(response.status, headers, b"".join(parts), base)
    check_discovery(answer)
    return answer


def tls_context(options: Options) -> ssl.SSLContext:
    """The context of `options`; reads files. Raises InvalidOptions."""
    try:
        context = ssl.create_default_context(cafile=options.ca_path)
    except (OSError, ValueError) as error:
        raise InvalidOptions("ca_path", _file_fault(error, "a PEM file with certificates")) from None
    if options.client_cert_path is not None:
        try:
            context.load_cert_chain(options.client_cert_path, options.client_key_path, password=_refuse)
        except (OSError, ValueError) as error:
            expected = "PEM files of a certificate and its key, which is not encrypted"
            raise InvalidOptions("client_cert_path", _file_fault(error, expected)) from None
    return context


def _file_fault(error: Exception, expected: str) -> str:
    if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and error.errno:
        return f"expected a readable file ({os.strerror(error.errno)})"
    return f"expected {expected}"


def _refuse() -> str:
    """OpenSSL would ask the terminal."""
    raise ValueError("the key is encrypted")


def _tracing() -> aiohttp.TraceConfig:
    """Tells each _Sending whether its last connection came out of the pool."""

    async def reused(_session: aiohttp.ClientSession, context: SimpleNamespace, _params: object) -> None:
        context.trace_request_ctx.reused = True

    async def created(_session: aiohttp.ClientSession, context: SimpleNamespace, _params: object) -> None:
        context.trace_request_ctx.reused = False  # aiohttp itself sends a GET again, on a new one

    config = aiohttp.TraceConfig()
    config.on_connection_reuseconn.append(reused)
    config.on_connection_create_start.append(created)
    return config
