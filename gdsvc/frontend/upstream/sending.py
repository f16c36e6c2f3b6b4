"""One exchange, as those see it who ask for it: a block that is entered with the head of the reply and may be left any
time. What every exchange does is compiled, in Exchange; here is what few of them need.
"""

import asyncio

from gdsvc._exchange import Exchange, Response
from gdsvc.frontend.upstream.connection import Connection
from gdsvc.frontend.upstream.origin import Origin
from gdsvc.frontend.upstream.pool import Pool
from gdsvc.frontend.upstream.request import Body, RequestHead, unsendable
from gdsvc.frontend.upstream.upload import upload

__all__ = ["Response", "Sending"]


class Sending(Exchange[Pool, Origin, RequestHead, Body]):
    """Enter it once; raises UpstreamFailed, Unsendable and what the source of the body raises. Leaving it before the
    body was read to its end closes the connection at once.
    """

    __slots__ = ()

    def refuse(self) -> None:
        """The request cannot be written."""
        raise unsendable(self.head)

    def send_body(self, connection: Connection) -> None:
        """Its head was sent, its body was not."""
        if isinstance(self.body, bytes) and not self.head.expect_continue:
            connection.write(self.body)
        else:
            self.upload = asyncio.create_task(upload(connection, self.body, expect_continue=self.head.expect_continue))

    async def ended(self, uploading: asyncio.Task[bool]) -> None:
        """Returns when the upload has."""
        await asyncio.wait((uploading,))
