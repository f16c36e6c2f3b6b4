"""The table, as far as it is used here: the only module that knows the AWS client. Repeats nothing, decides nothing.

aiobotocore comes with the extra `dynamodb` and is loaded when a table is opened. Its errors become Failed, which names
the operation and the error's code: what else they say may hold names of accounts.
"""

import asyncio
import importlib
import logging
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NoReturn

import msgspec
from msgspec import Struct

from gdsvc.backends.dynamodb.codec import TTL_ATTRIBUTE, Item, Key, kept_until
from gdsvc.backends.dynamodb.credentials import KeptFresh
from gdsvc.backends.dynamodb.keys import LAYOUT_KEY, Part
from gdsvc.backends.dynamodb.patience import Failed, FaultKind
from gdsvc.errors import GdsvcError

PUTS: Final = 25  # items that one BatchWriteItem takes
GETS: Final = 100  # keys that one BatchGetItem takes
PAGE: Final = 500  # renewals that one Query returns: taking in more would hold the loop for longer than 10 ms
CONNECTIONS: Final = 64
CONNECT_SECS: Final = 2.0
READ_SECS: Final = 10.0  # the client's own; whoever calls is less patient
CONTAINER_SECS: Final = 10.0  # for a container's endpoint to give keys, where the client of itself gives up after 2

_CODES: Final[Mapping[str, FaultKind]] = {
    "ProvisionedThroughputExceededException": "throttled",
    "RequestLimitExceeded": "throttled",
    "ThrottlingException": "throttled",
    "Throttling": "throttled",
    "LimitExceededException": "throttled",
    "ResourceInUseException": "throttled",
    "TransactionInProgressException": "throttled",
    "ResourceNotFoundException": "absent",
    "ExpiredTokenException": "credentials",
    "ExpiredToken": "credentials",
    "RequestExpired": "credentials",
}


_DECODER = msgspec.json.Decoder()


class Page(Struct, frozen=True):
    """Items of a shard, and where the next page begins; None behind the last."""

    items: Sequence[Item]
    after: Item | None


class NotInstalled(GdsvcError):
    """The extra `dynamodb` is not installed."""

    def __init__(self) -> None:
        super().__init__("DynamoDB needs the extra `dynamodb`: pip install 'gdsvc[dynamodb]'")


class Table:
    """Calls on one table. Each raises Failed."""

    def __init__(self, client: Any, name: str) -> None:
        self._client = client
        self.name = name

    async def layout(self) -> Item | None:
        """The item that says how the table is laid out."""
        key = {"pk": {"S": LAYOUT_KEY[0]}, "sk": {"S": LAYOUT_KEY[1]}}
        return await self.get(key)

    async def put(self, item: Item, before: int | None = None) -> bool:
        """Puts `item` in the place of the one of version `before`, None where none is there; False where it differs."""
        if before is None:
            return await self._put(item, ConditionExpression="attribute_not_exists(pk)")
        return await self._put(
            item, ConditionExpression="v = :before", ExpressionAttributeValues={":before": {"N": str(before)}}
        )

    async def put_renewals(self, items: Sequence[Item]) -> list[Item]:
        """Puts at most PUTS items of different keys; those that the table had no room for come back."""
        answer = await self._call(
            "batch_write_item", RequestItems={self.name: [{"PutRequest": {"Item": item}} for item in items]}
        )
        left = answer.get("UnprocessedItems", {}).get(self.name, [])
        return [request["PutRequest"]["Item"] for request in left]

    async def get(self, key: Key) -> Item | None:
        """The item as it is now."""
        answer = await self._call("get_item", TableName=self.name, Key=key, ConsistentRead=True)
        return answer.get("Item")

    async def get_all(self, keys: Sequence[Key]) -> tuple[list[Item], list[Key]]:
        """At most GETS items as they are now, those that are there; and the keys that were not looked for."""
        answer = await self._call("batch_get_item", RequestItems={self.name: {"Keys": keys, "ConsistentRead": True}})
        left = answer.get("UnprocessedKeys", {}).get(self.name, {}).get("Keys", [])
        return answer.get("Responses", {}).get(self.name, []), left

    async def renewals(self, shard: str, after: Item | None) -> Page:
        """A page of a shard's renewals, perhaps a second old."""
        start = {} if after is None else {"ExclusiveStartKey": after}
        answer = await self._call(
            "query",
            TableName=self.name,
            KeyConditionExpression="pk = :shard AND begins_with(sk, :part)",
            ExpressionAttributeValues={":shard": {"S": shard}, ":part": {"S": Part.RENEWAL.value}},
            Limit=PAGE,
            **start,
        )
        return Page(answer.get("Items", []), answer.get("LastEvaluatedKey"))

    async def keep(self, key: Key, version: int, unix_now: float) -> bool:
        """Keeps the registration of `version` for another week; False where it is not there."""
        return await self._conditional(
            "update_item",
            TableName=self.name,
            Key=key,
            UpdateExpression="SET #ttl = :until",
            ConditionExpression="v = :version",
            ExpressionAttributeNames={"#ttl": TTL_ATTRIBUTE},
            ExpressionAttributeValues={":until": {"N": str(kept_until(unix_now))}, ":version": {"N": str(version)}},
        )

    async def name_later(self, key: Key, stamp: str, version: int) -> bool:
        """Has the renewal of `stamp` name the later `version`; False where another renewal is there, or it does."""
        return await self._conditional(
            "update_item",
            TableName=self.name,
            Key=key,
            UpdateExpression="SET v = :version",
            ConditionExpression="r = :stamp AND v < :version",
            ExpressionAttributeValues={":stamp": {"S": stamp}, ":version": {"N": str(version)}},
        )

    async def _put(self, item: Item, **condition: Any) -> bool:
        return await self._conditional("put_item", TableName=self.name, Item=item, **condition)

    async def _conditional(self, operation: str, **arguments: Any) -> bool:
        try:
            await self._call(operation, **arguments)
        except _ConditionFailed:
            return False
        return True

    # -- the table itself

    async def describe(self) -> dict[str, Any]:
        """What DescribeTable says."""
        answer = await self._call("describe_table", TableName=self.name)
        table: dict[str, Any] = answer["Table"]
        return table

    async def time_to_live(self) -> dict[str, Any]:
        """What DescribeTimeToLive says."""
        answer = await self._call("describe_time_to_live", TableName=self.name)
        description: dict[str, Any] = answer.get("TimeToLiveDescription", {})
        return description

    async def create(self, definition: Mapping[str, Any]) -> None:
        """CreateTable."""
        await self._call("create_table", TableName=self.name, **definition)

    async def enable_time_to_live(self) -> None:
        """UpdateTimeToLive."""
        specification = {"Enabled": True, "AttributeName": TTL_ATTRIBUTE}
        await self._call("update_time_to_live", TableName=self.name, TimeToLiveSpecification=specification)

    async def delete(self, key: Key) -> None:
        """DeleteItem, also where there is none."""
        await self._call("delete_item", TableName=self.name, Key=key)

    async def date(self) -> str | None:
        """The Date of an answer, by the table's own clock."""
        answer = await self._call("describe_table", TableName=self.name)
        date: str | None = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
        return date

    async def _call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = await getattr(self._client, operation)(**arguments)
        except Exception as error:  # noqa: BLE001 - the client's errors have no base of their own that is public
            _translate(error, operation)
        return answer


class _ConditionFailed(Exception):
    """The condition of a write does not hold."""


def _translate(error: Exception, operation: str) -> NoReturn:
    exceptions = importlib.import_module("botocore.exceptions")
    if isinstance(error, exceptions.ClientError):
        answer: Any = error
        raise _refusal(answer.response, operation) from None
    if isinstance(error, (exceptions.ConnectTimeoutError, exceptions.ReadTimeoutError)):
        raise Failed("slow", f"{operation} took too long") from None
    if isinstance(error, (exceptions.NoCredentialsError, exceptions.CredentialRetrievalError)):
        raise Failed("credentials", f"{operation}: no credentials were found, or they could not be renewed") from None
    if isinstance(error, (exceptions.HTTPClientError, exceptions.ConnectionError, OSError)):
        raise Failed("unreachable", f"{operation}: the endpoint cannot be reached") from None
    if isinstance(error, exceptions.BotoCoreError):
        raise Failed("refused", f"{operation}: {type(error).__name__}") from None
    raise error


def _refusal(response: Mapping[str, Any], operation: str) -> Exception:
    code = str(response.get("Error", {}).get("Code", ""))
    if code == "ConditionalCheckFailedException":
        return _ConditionFailed()
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    kind = _CODES.get(code) or ("server" if isinstance(status, int) and status >= 500 else "refused")
    return Failed(kind, f"{operation}: {code[:80] or 'an answer without a code'}")


@asynccontextmanager
async def opened(name: str, region: str | None, endpoint_url: str | None) -> AsyncGenerator[Table]:
    """The table, over a client of its own. Raises NotInstalled; Failed where region or credentials are not there."""
    session, config = await asyncio.to_thread(_loaded)  # which takes seconds
    if region is not None:
        session.set_config_variable("region", region)  # whoever gives keys is asked there too, not in all the world
    fresh = KeptFresh(_patient_chain(session))
    session.register_component("credential_provider", fresh)
    try:
        making = session.create_client("dynamodb", region_name=region, endpoint_url=endpoint_url, config=config)
        client = await making.__aenter__()
    except Exception as error:  # noqa: BLE001 - as in _call
        _translate(error, "opening the table")
    try:
        async with fresh:
            yield Table(client, name)
    finally:
        await making.__aexit__(None, None, None)


def _loaded() -> tuple[Any, Any]:
    """A session of the AWS client that has read what it reads from files, and how clients are to be. For a thread."""
    try:
        session_module = importlib.import_module("aiobotocore.session")
        config_module = importlib.import_module("aiobotocore.config")
    except ImportError:
        raise NotInstalled from None
    for logger in ("aiobotocore", "botocore"):  # they log requests, which bear tokens, and what providers raise
        logging.getLogger(logger).setLevel(logging.ERROR)
    config = config_module.AioConfig(
        connect_timeout=CONNECT_SECS,
        read_timeout=READ_SECS,
        max_pool_connections=CONNECTIONS,
        retries={"total_max_attempts": 1, "mode": "standard"},  # patience.py repeats, within the heartbeat's time
        parameter_validation=False,  # what is sent is written in codec.py; it takes a third of a call
        tcp_keepalive=True,
        user_agent="gdsvc",  # else it is put together anew for each call, twice, which is a sixth of what a call costs
    )
    session = session_module.get_session()
    session.register_component("response_parser_factory", _plain_parsers())
    loader = session.get_component("data_loader")
    for kind in ("service-2", "paginators-1", "waiters-2"):
        loader.load_service_model("dynamodb", kind)
    loader.load_data("endpoints")
    return session, config


def _patient_chain(session: Any) -> Any:
    """AWS's own chain, in which the endpoint of a container has CONTAINER_SECS for each of its three attempts."""
    credentials = importlib.import_module("aiobotocore.credentials")
    utils = importlib.import_module("aiobotocore.utils")
    fetcher = type("Fetcher", (utils.AioContainerMetadataFetcher,), {"TIMEOUT_SECONDS": CONTAINER_SECS})
    chain = session.get_component("credential_provider")
    chain.insert_before(credentials.AioContainerProvider.METHOD, credentials.AioContainerProvider(fetcher=fetcher()))
    return chain


def _plain_parsers() -> Any:
    """Parsers that leave items as the JSON they are: the client's own walk over each attribute takes 50 us an item."""
    parsers = importlib.import_module("aiobotocore.parsers")
    plain = type("PlainJsonParser", (parsers.AioJSONParser,), {"_handle_json_body": _decoded})
    factory = parsers.AioResponseParserFactory()
    others = factory.create_parser

    def create_parser(protocol: str) -> Any:
        return plain() if protocol == "json" else others(protocol)

    factory.create_parser = create_parser
    return factory


def _decoded(parser: object, body: bytes, shape: object) -> Any:
    del parser, shape
    return _DECODER.decode(body) if body else {}
