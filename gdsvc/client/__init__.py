"""The client of a discovery service: what a router, a frontend or a PoolRelay embeds."""

from gdsvc.client.answer import Answer
from gdsvc.client.api import DiscoveryApi, EventStream, named_path
from gdsvc.client.directory import RemotePoolDirectory, RemoteReplicaDirectory
from gdsvc.client.errors import ClientError, InvalidOptions, NotDiscovery, Refused, StreamLost, Unreachable
from gdsvc.client.heartbeat import Heartbeat
from gdsvc.client.options import Options
from gdsvc.client.schedule import HeartbeatState, HeartbeatStatus
from gdsvc.client.sse import ServerSentEvent

__all__ = [
    "Answer",
    "ClientError",
    "DiscoveryApi",
    "EventStream",
    "Heartbeat",
    "HeartbeatState",
    "HeartbeatStatus",
    "InvalidOptions",
    "NotDiscovery",
    "Options",
    "Refused",
    "RemotePoolDirectory",
    "RemoteReplicaDirectory",
    "ServerSentEvent",
    "StreamLost",
    "Unreachable",
    "named_path",
]
