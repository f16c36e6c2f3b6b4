"""Sends a body bit by bit, as fast as the upstream takes it."""

from gdsvc.frontend.upstream.connection import Connection
from gdsvc.frontend.upstream.request import Body, Streamed, Unsendable


async def upload(connection: Connection, body: Body, *, expect_continue: bool) -> bool:
    """Whether all of `body` was sent. What goes wrong with it, the reader of the reply is told."""
    if expect_continue and not await connection.permitted():
        return False
    if isinstance(body, bytes):
        connection.write(body)
        return await connection.drained()
    connection.is_uploading = True
    try:
        return await _stream(connection, body)
    except Exception as error:  # noqa: BLE001 - the caller's own, handed back to the caller
        connection.fail(error)
        return False
    finally:
        connection.is_uploading = False


async def _stream(connection: Connection, body: Streamed) -> bool:
    sent = 0
    async for part in body.source:
        sent += len(part)
        if body.length is None:
            if part:  # an empty chunk would end the body
                connection.write(b"%x\r\n%b\r\n" % (len(part), part))
        elif sent > body.length:
            raise Unsendable(f"the body is longer than {body.length} bytes")
        else:
            connection.write(part)
        if not await connection.drained():
            return False
    if body.length is None:
        connection.write(b"0\r\n\r\n")
    elif sent < body.length:
        raise Unsendable(f"the body ends after {sent} of {body.length} bytes")
    return connection.is_usable
