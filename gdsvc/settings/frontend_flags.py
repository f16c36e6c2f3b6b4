"""The table of all flags of `gdsvc frontend`. Which policies there are is told from outside: they are plugins."""

from enum import Enum
from typing import Final

from msgspec.structs import replace

from gdsvc.settings import values
from gdsvc.settings.flags import ALL_MODES, LONGEST_LEASE_SECS, LONGEST_SECS, Flag, Mode
from gdsvc.settings.manual import Manual

POLICY: Final = "--router-policy"
PLAIN_POLICIES: Final = ("round-robin", "least-in-flight")  # read neither load reports nor sessions
AFFINITY: Final = "affinity"
MIB: Final = 2**20

EXAMPLES: Final = """
examples:
  two pools that are known, one of two frontends; both serve every model:
    gdsvc frontend --pool a=http://a1:8000 --pool b=http://b1:8000,http://b2:8000
  what a discovery service lists, of which there are two replicas; a pool serves
  the model that it registers:
    gdsvc frontend --discovery-url http://gds-0:8080 --discovery-url http://gds-1:8080
  then, whatever speaks to OpenAI:
    curl http://127.0.0.1:8000/v1/models
"""


class Heading(Enum):
    """The groups of --help."""

    SERVING = "serving"
    POOLS = "where the pools come from; one of --pool and --discovery-url"
    CHOOSING = "which pool a request goes to"
    AFFINITY = "with a --router-policy that goes by load and sessions"
    WAY = "the way to the pools"
    LIMITS = "limits"
    RUNNING = "stopping and logging"


def frontend_flags(policies: tuple[str, ...]) -> tuple[Flag, ...]:
    """The flags, where these policies are installed."""
    by_load = Mode(POLICY, _by_load(policies), Heading.AFFINITY)
    return (*_serving(), *_POOLS, *_choosing(policies), *_affinity(by_load), *_WAY, *_LIMITS, *_running())


MANUAL: Final = Manual(
    "Takes requests in OpenAI's API and forwards each to one of several pools, streaming the answer back.",
    examples=EXAMPLES,
)


def _by_load(policies: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((AFFINITY, *(name for name in policies if name not in PLAIN_POLICIES))))


def _shared(name: str, group: Heading, default: str | None = None) -> Flag:
    """A flag of the discovery service that means the same here."""
    flag = next(flag for flag in ALL_MODES if flag.name == name)
    return replace(flag, group=group, default=default or flag.default)


def _serving() -> tuple[Flag, ...]:
    listen = _shared("--listen", Heading.SERVING, "0.0.0.0:8000")
    tls = ("--tls-cert-path", "--tls-key-path", "--tls-client-ca-path")
    return replace(listen, help=listen.help.replace("8080", "8000")), *(_shared(name, Heading.SERVING) for name in tls)


_POOLS = (
    Flag(
        name="--pool",
        metavar="ID=URL[,URL...]",
        group=Heading.POOLS,
        repeatable=True,
        convert=values.pool,
        help="A pool and its frontends, for example --pool east=http://10.0.0.7:8000. It serves every model; its "
        "frontends take turns. Repeatable; the variable holds several with white space between.",
    ),
    Flag(
        name="--discovery-url",
        metavar="URL",
        group=Heading.POOLS,
        repeatable=True,
        convert=values.service_url,
        help="A discovery service that lists the pools; a path may follow the host. Repeatable, for its replicas: they "
        "are tried in turn. Changes are watched, or polled where the service has no watch.",
    ),
)


def _choosing(policies: tuple[str, ...]) -> tuple[Flag, ...]:
    return (
        Flag(
            name="--region",
            metavar="NAME",
            group=Heading.CHOOSING,
            convert=values.name,
            help="The region that this process runs in: pools of the same region are nearest.",
        ),
        Flag(
            name=POLICY,
            metavar="|".join(policies),
            default="round-robin",
            group=Heading.CHOOSING,
            convert=values.one_of(*policies),
            help="round-robin: every pool once a round. least-in-flight: the pool with the fewest requests of this "
            "process; one that fails fast gets its turn of a round and no more. Others are what is installed for the "
            "entry points group gdsvc.policies.",
        ),
        Flag(
            name="--use-selection-core",
            metavar="",
            default="false",
            group=Heading.CHOOSING,
            switch="true",
            convert=values.switch,
            help="Choose among workers that are named by a hash of the pool id; only with --router-policy round-robin.",
        ),
    )


def _affinity(by_load: Mode) -> tuple[Flag, ...]:
    return (
        Flag(
            name="--load-headroom",
            metavar="SHARE",
            default="0.8",
            only_with=by_load,
            convert=values.share,
            help="A pool of which less than this share is in use takes more; above 0, at most 1.",
        ),
        Flag(
            name="--session-pin-ttl-secs",
            metavar="N",
            default="300",
            only_with=by_load,
            convert=values.whole_number(1, LONGEST_LEASE_SECS),
            help="How long a session that is idle still goes to the pool of its last request, in whole seconds.",
        ),
        Flag(
            name="--relay-port",
            metavar="N",
            only_with=by_load,
            convert=values.whole_number(1, 65535),
            help="Port on which PoolRelays report their load; unset, requests in flight are the load.",
        ),
    )


_LIMITS = (
    Flag(
        name="--max-in-flight",
        metavar="N",
        default="4096",
        group=Heading.LIMITS,
        convert=values.whole_number(1, 1_000_000),
        help="Most requests at one time; one more is answered 503 with Retry-After. Each holds two open files.",
    ),
    Flag(
        name="--max-body-bytes",
        metavar="N",
        default=str(192 * MIB),
        group=Heading.LIMITS,
        convert=values.whole_number(1024),
        help="Longest request body in bytes, at least 1024; a longer one is answered 413.",
    ),
    Flag(
        name="--max-buffer-bytes",
        metavar="N",
        default=str(1024 * MIB),
        group=Heading.LIMITS,
        convert=values.whole_number(1024),
        help="Most bytes of request bodies that are held at one time, all requests together; a request beyond is "
        "answered 503. At least --max-body-bytes.",
    ),
)


_WAY = (
    Flag(
        name="--upstream-ca-path",
        metavar="FILE",
        group=Heading.WAY,
        convert=values.path,
        help="PEM file with the CA certificates that frontends with an https URL must be signed by. Unset: those that "
        "the system trusts.",
    ),
    Flag(
        name="--upstream-idle-secs",
        metavar="N",
        group=Heading.WAY,
        convert=values.whole_number(1, LONGEST_SECS),
        help="How long a frontend may be silent within a request, in whole seconds, before the request is given up. "
        "Unset: for ever, since a long prompt may take minutes to its first token.",
    ),
    Flag(
        name="--trusted-proxies",
        metavar="CIDR[,CIDR...]",
        group=Heading.WAY,
        convert=values.networks,
        help="Whose X-Forwarded-For, -Proto and -Host are believed and passed on, for example 10.0.0.0/8,::1. Those of "
        "other callers are replaced.",
    ),
)


def _running() -> tuple[Flag, ...]:
    names = ("--shutdown-grace-secs", "--log-level", "--log-format")
    access = Flag(
        name="--access-log",
        metavar="",
        default="false",
        group=Heading.RUNNING,
        switch="true",
        convert=values.switch,
        help="Log a line for each request: route, pool, status, seconds, bytes. Never a body or a header.",
    )
    return *(_shared(name, Heading.RUNNING) for name in names), access
