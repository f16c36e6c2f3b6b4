"""An HTTP/1.1 client for a proxy: exact bytes, backpressure both ways, failures that say whether to send again."""

from gdsvc.frontend.upstream.client import Client, Counts
from gdsvc.frontend.upstream.failures import Cause, Closed, UpstreamFailed
from gdsvc.frontend.upstream.limits import Limits
from gdsvc.frontend.upstream.origin import Origin
from gdsvc.frontend.upstream.request import Body, RequestHead, Streamed, Unsendable
from gdsvc.frontend.upstream.sending import Response, Sending
from gdsvc.frontend.upstream.tls import tls_context

__all__ = [
    "Body",
    "Cause",
    "Client",
    "Closed",
    "Counts",
    "Limits",
    "Origin",
    "RequestHead",
    "Response",
    "Sending",
    "Streamed",
    "Unsendable",
    "UpstreamFailed",
    "tls_context",
]
