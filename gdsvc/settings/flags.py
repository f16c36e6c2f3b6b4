"""The table of all flags of `gdsvc serve`: names, defaults, modes, meaning. Reads nothing and checks nothing itself.

A name that upstream chose otherwise is changed here and nowhere else.
"""

from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from gdsvc.settings import values

CHOOSERS = ("--pool-discovery", "--registration-storage")  # the flags that choose a mode
POOL_DISCOVERY = ("registrations", "karmada", "mcs")
REGISTRATION_STORAGE = ("memory", "dynamodb", "kubernetes")
LONGEST_LEASE_SECS = 86_400  # a pool that is dead for a day is listed no longer, whoever configured it
MOST_SHARDS = 256  # one small query each, every poll
LONGEST_SECS = 2**31 - 1  # timers overflow beyond


class Heading(Enum):
    """The four groups of --help."""

    ALL = "all modes"
    REGISTRATIONS = "with --pool-discovery registrations"
    CLUSTERS = "with --pool-discovery karmada or mcs"
    STORAGE = "with a --registration-storage other than memory"


class TableHeading(Enum):
    """The one group of the commands on the table of registrations."""

    FLAGS = "flags"


class Mode(Struct, frozen=True):
    """A flag's modes: it may be set only where `flag` has one of `choices`. Help lists it under `heading`."""

    flag: str
    choices: tuple[str, ...]
    heading: Enum

    def __str__(self) -> str:
        return f"{self.flag} {' or '.join(self.choices)}"


class Flag(Struct, frozen=True, kw_only=True):
    """One row. `default` is text, converted like any other; None leaves the field None, or () where repeatable."""

    name: str
    metavar: str
    help: str
    convert: values.Converter
    default: str | None = None
    only_with: Mode | None = None
    repeatable: bool = False
    switch: str | None = None  # the value that the name alone stands for; such a flag takes none on the command line
    group: Enum | None = None  # of --help, where it is not that of the mode

    @property
    def heading(self) -> Enum:
        if self.group is not None:
            return self.group
        return Heading.ALL if self.only_with is None else self.only_with.heading

    @property
    def variable(self) -> str:
        """The environment twin: --log-level is GDSVC_LOG_LEVEL."""
        return "GDSVC_" + self.name.removeprefix("--").replace("-", "_").upper()


REGISTRATIONS = Mode("--pool-discovery", ("registrations",), Heading.REGISTRATIONS)
CLUSTERS = Mode("--pool-discovery", ("karmada", "mcs"), Heading.CLUSTERS)
DYNAMODB = Mode("--registration-storage", ("dynamodb",), Heading.STORAGE)
KUBERNETES = Mode("--registration-storage", ("kubernetes",), Heading.STORAGE)

ALL_MODES = (
    Flag(
        name="--listen",
        metavar="HOST:PORT",
        default="0.0.0.0:8080",
        convert=values.listen,
        help="Address to serve on; an IPv6 address stands in brackets, as in [::]:8080, which IPv6 clusters need. "
        "Port 0 takes any free port.",
    ),
    Flag(
        name="--tls-cert-path",
        metavar="FILE",
        convert=values.path,
        help="PEM file with the certificate, its chain after it. Serves HTTPS, TLS 1.2 and later, instead of HTTP; "
        "requires --tls-key-path.",
    ),
    Flag(
        name="--tls-key-path",
        metavar="FILE",
        convert=values.path,
        help="PEM file with the private key of the certificate, not encrypted; requires --tls-cert-path.",
    ),
    Flag(
        name="--tls-client-ca-path",
        metavar="FILE",
        convert=values.path,
        help="PEM file with the CA certificates whose clients are let in; others are refused in the TLS handshake. "
        "Requires --tls-cert-path and --tls-key-path.",
    ),
    Flag(
        name="--pool-discovery",
        metavar="|".join(POOL_DISCOVERY),
        default="registrations",
        convert=values.one_of(*POOL_DISCOVERY),
        help="Where the lists of pools and routers come from: from what registers with this service, or from the "
        "EndpointSlices that Karmada or another Multi-Cluster Services implementation imports. These are read, in all "
        "namespaces, from the API server that KUBECONFIG names, else from that of the pod.",
    ),
    Flag(
        name="--registration-storage",
        metavar="|".join(REGISTRATION_STORAGE),
        default="memory",
        convert=values.one_of(*REGISTRATION_STORAGE),
        help="Where registrations are kept: in this process, in a DynamoDB table, or in Kubernetes Lease objects. "
        "Works with every --pool-discovery.",
    ),
    Flag(
        name="--heartbeat-interval-secs",
        metavar="N",
        default="5",
        convert=values.whole_number(1, LONGEST_LEASE_SECS - 1),
        help="How often a pool is asked to register again, in whole seconds; below --lease-duration-secs.",
    ),
    Flag(
        name="--lease-duration-secs",
        metavar="N",
        default="15",
        convert=values.whole_number(2, LONGEST_LEASE_SECS),
        help="How long a pool stays listed after its last registration, in whole seconds; above "
        f"--heartbeat-interval-secs, at most {LONGEST_LEASE_SECS}. Three heartbeats let two of them be lost.",
    ),
    Flag(
        name="--max-pools",
        metavar="N",
        convert=values.whole_number(1),
        help="Most pools to list; a registration of one more is answered 429. Unset means no bound.",
    ),
    Flag(
        name="--max-watchers",
        metavar="N",
        default="1000",
        convert=values.whole_number(1, LONGEST_SECS),
        help="Most watch streams at one time; one more is answered 429.",
    ),
    Flag(
        name="--max-body-bytes",
        metavar="N",
        default="2097152",
        convert=values.whole_number(1024),
        help="Longest request body in bytes, at least 1024; a longer one is answered 413.",
    ),
    Flag(
        name="--shutdown-grace-secs",
        metavar="N",
        default="20",
        convert=values.whole_number(0, LONGEST_SECS),
        help="How long requests in hand may take to finish after SIGTERM, in whole seconds. Stay below the pod's "
        "terminationGracePeriodSeconds.",
    ),
    Flag(
        name="--log-level",
        metavar="trace|debug|info|warn|error",
        default="info",
        convert=values.log_level,
        help="Least severe lines to write; trace is debug. The level of DYN_LOG, which may be a filter such as "
        "info,hyper=warn, counts where neither this flag nor its variable is set.",
    ),
    Flag(
        name="--log-format",
        metavar="auto|json|console",
        default="auto",
        convert=values.one_of("auto", "json", "console"),
        help="Shape of the lines on stderr: auto writes for people on a terminal and JSON elsewhere.",
    ),
)

WITH_REGISTRATIONS = (
    Flag(
        name="--router",
        metavar="ID=URL",
        only_with=REGISTRATIONS,
        repeatable=True,
        convert=values.router,
        help="A router replica that is always listed, for example --router ohio-0=http://10.0.0.7:8000; the URL has "
        "no path, query, fragment or user. Repeatable; the variable holds several with white space between.",
    ),
)

WITH_CLUSTERS = (
    Flag(
        name="--router-namespace",
        metavar="NAME",
        only_with=CLUSTERS,
        convert=values.text,
        help="Namespace of the Service of the router replicas. Set this, --router-service and --router-port-name, or "
        "none of the three: then no router is listed.",
    ),
    Flag(
        name="--router-service",
        metavar="NAME",
        only_with=CLUSTERS,
        convert=values.text,
        help="Name of that Service, for example global-router: its Ready endpoints, in every cluster that exports it, "
        "are the routers. With karmada it has at most 55 characters.",
    ),
    Flag(
        name="--router-port-name",
        metavar="NAME",
        only_with=CLUSTERS,
        convert=values.text,
        help="Name that this Service gives to the TCP port of the routers, for example http.",
    ),
    Flag(
        name="--pool-service-suffix",
        metavar="SUFFIX",
        only_with=CLUSTERS,
        default="-pool-relay",
        convert=values.text,
        help="Ending of the names of PoolRelay Services. By default qwen-pool-relay makes the pool qwen, which is "
        "listed while that Service has a Ready endpoint; a Service without the ending makes none.",
    ),
    Flag(
        name="--frontend-service-suffix",
        metavar="SUFFIX",
        only_with=CLUSTERS,
        default="-frontend",
        convert=values.text,
        help="Ending of the names of frontend Services. By default the Ready endpoints of qwen-frontend are the "
        "frontends of the pool qwen; a pool without any has those that it registers.",
    ),
    Flag(
        name="--frontend-port-name",
        metavar="NAME",
        only_with=CLUSTERS,
        default="http",
        convert=values.text,
        help="Name that frontend Services give to the port of the frontends. Where a Service has one port, that is "
        "taken, whatever its name.",
    ),
    Flag(
        name="--location",
        metavar="CLUSTER=REGION[/ZONE]",
        only_with=CLUSTERS,
        repeatable=True,
        convert=values.location,
        help="Where a cluster stands, for example --location east=us-east-2/us-east-2a. CLUSTER is the site_id of its "
        "pools, which have this location unless they register one. Repeatable; the variable holds several with white "
        "space between.",
    ),
    Flag(
        name="--registrations",
        metavar="join|off",
        only_with=CLUSTERS,
        default="join",
        convert=values.one_of("join", "off"),
        help="What becomes of registrations. join: one with the key of a listed pool adds model, capacity, "
        "capabilities and location, and frontends where the slices show none; without slices no pool is listed. off: "
        "there are none, POST and DELETE of pools are answered 501.",
    ),
    Flag(
        name="--relist-interval-secs",
        metavar="N",
        only_with=CLUSTERS,
        default="600",
        convert=values.whole_number(1, LONGEST_LEASE_SECS),
        help="How often all EndpointSlices are listed again, in whole seconds, so that a change of which the watch was "
        "not told is found by then. Each time comes up to a fifth sooner, by chance, so that replicas do not list in "
        "one instant.",
    ),
)

WITH_STORAGE = (
    Flag(
        name="--dynamodb-table",
        metavar="NAME",
        only_with=DYNAMODB,
        convert=values.dynamodb_table,
        help="Table that holds the registrations; required with dynamodb.",
    ),
    Flag(
        name="--dynamodb-region",
        metavar="NAME",
        only_with=DYNAMODB,
        convert=values.aws_region,
        help="AWS region of the table, for example us-east-2. Unset means what AWS's own chain finds.",
    ),
    Flag(
        name="--dynamodb-endpoint-url",
        metavar="URL",
        only_with=DYNAMODB,
        convert=values.base_url,
        help="Another endpoint than the region's own, for example http://127.0.0.1:8000 in a test.",
    ),
    Flag(
        name="--dynamodb-poll-interval-secs",
        metavar="N",
        only_with=DYNAMODB,
        default="2",
        convert=values.whole_number(1, LONGEST_LEASE_SECS),
        help="How often the table is read, in whole seconds; below --lease-duration-secs.",
    ),
    Flag(
        name="--kubernetes-namespace",
        metavar="NAME",
        only_with=KUBERNETES,
        convert=values.kubernetes_namespace,
        help="Namespace of the Lease objects. Unset means the pod's own.",
    ),
    Flag(
        name="--kubernetes-renew-fraction",
        metavar="F",
        only_with=KUBERNETES,
        default="0",
        convert=values.fraction,
        help="Part of a lease, from 0 to 1, that must have passed before a heartbeat is written again; those between "
        "are answered from memory. Each Lease then grants so much more, so no pool is dropped early, and one that "
        "died is listed for as much longer. 0 writes every heartbeat.",
    ),
)

TABLE_NAMES = ("--dynamodb-table", "--dynamodb-region", "--dynamodb-endpoint-url")

WITH_TABLES = (
    Flag(
        name="--shards",
        metavar="N",
        default="8",
        convert=values.whole_number(1, MOST_SHARDS),
        help="create-table: how many partitions to spread registrations over; one takes about 5,000 pools at a "
        "heartbeat of 5 s. Kept in the table; it cannot be changed later.",
    ),
    Flag(
        name="--dry-run",
        metavar="yes|no",
        default="no",
        convert=values.one_of("yes", "no"),
        switch="yes",
        help="create-table: print what AWS would be asked for, as JSON, and ask for nothing.",
    ),
)

SERVE_FLAGS = ALL_MODES + WITH_REGISTRATIONS + WITH_CLUSTERS + WITH_STORAGE
TABLE_FLAGS = tuple(
    replace(flag, group=TableHeading.FLAGS)
    for flag in (*(flag for flag in WITH_STORAGE if flag.name in TABLE_NAMES), *WITH_TABLES)
)
