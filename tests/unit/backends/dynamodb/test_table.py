"""What is asked of the AWS client, and what is made of its answers and of its errors, which are those of the extra."""

import importlib
from typing import Any

import pytest

from gdsvc.backends.dynamodb.patience import Failed
from gdsvc.backends.dynamodb.table import PAGE, Table

KEY = {"pk": {"S": "s0"}, "sk": {"S": "hp/a/b/c"}}
ITEM = {**KEY, "v": {"N": "7"}}


class Client:
    """Answers each call with the next of `answers`, or raises it."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def __getattr__(self, operation: str) -> Any:
        async def call(**arguments: Any) -> Any:
            self.asked.append((operation, arguments))
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call


def table(*answers: Any) -> tuple[Table, Client]:
    client = Client(*answers)
    return Table(client, "pools"), client


async def test_single_items_are_read_as_they_are_now_and_put_where_nothing_else_stands() -> None:
    made, client = table({"Item": ITEM}, {}, {}, {}, {})
    assert (await made.get(KEY), await made.get(KEY)) == (ITEM, None)
    assert await made.put(ITEM)
    assert await made.put(ITEM, 6)
    assert await made.keep(KEY, 7, 0.0)
    assert client.asked[0][1]["ConsistentRead"] is True
    conditions = [arguments.get("ConditionExpression") for _, arguments in client.asked[2:]]
    assert conditions == ["attribute_not_exists(pk)", "v = :before", "v = :version"]
    assert client.asked[3][1]["ExpressionAttributeValues"] == {":before": {"N": "6"}}


async def test_what_a_batch_had_no_room_for_comes_back() -> None:
    made, _ = table(
        {"UnprocessedItems": {"pools": [{"PutRequest": {"Item": ITEM}}]}},
        {},
        {"Responses": {"pools": [ITEM]}, "UnprocessedKeys": {"pools": {"Keys": [KEY]}}},
    )
    assert await made.put_renewals([ITEM]) == [ITEM]
    assert await made.put_renewals([ITEM]) == []
    assert await made.get_all([KEY, KEY]) == ([ITEM], [KEY])


async def test_renewals_come_in_pages_of_one_shard() -> None:
    made, client = table({"Items": [ITEM], "LastEvaluatedKey": KEY}, {"Items": []})
    page = await made.renewals("s0", None)
    assert (page.items, page.after) == ([ITEM], KEY)
    assert (await made.renewals("s0", page.after)).after is None
    assert [arguments.get("ExclusiveStartKey") for _, arguments in client.asked] == [None, KEY]
    assert client.asked[0][1]["Limit"] == PAGE


@pytest.mark.dynamodb
@pytest.mark.parametrize(
    ("code", "status", "kind", "passing"),
    [
        ("ProvisionedThroughputExceededException", 400, "throttled", True),
        ("ExpiredTokenException", 400, "credentials", True),
        ("InternalServerError", 500, "server", True),
        ("ResourceNotFoundException", 400, "absent", False),
        ("AccessDeniedException", 400, "refused", False),
        ("", 0, "refused", False),
    ],
)
async def test_a_refusal_is_named_by_its_code_alone(code: str, status: int, kind: str, passing: bool) -> None:
    exceptions: Any = importlib.import_module("botocore.exceptions")
    said = {"Error": {"Code": code, "Message": "arn:secret"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    made, _ = table(exceptions.ClientError(said, "GetItem"))
    with pytest.raises(Failed) as raised:
        await made.get(KEY)
    assert (raised.value.kind, raised.value.passing) == (kind, passing)
    assert "secret" not in str(raised.value)


@pytest.mark.dynamodb
async def test_a_condition_that_does_not_hold_is_an_answer_and_no_error() -> None:
    exceptions: Any = importlib.import_module("botocore.exceptions")
    failed = exceptions.ClientError({"Error": {"Code": "ConditionalCheckFailedException"}}, "PutItem")
    made, _ = table(failed, failed)
    assert not await made.put(ITEM)
    assert not await made.keep(KEY, 7, 0.0)


@pytest.mark.dynamodb
async def test_what_is_no_answer_is_told_apart() -> None:
    exceptions: Any = importlib.import_module("botocore.exceptions")
    made, _ = table(
        exceptions.ReadTimeoutError(endpoint_url="http://user:secret@host"),
        exceptions.EndpointConnectionError(endpoint_url="http://user:secret@host"),
        exceptions.NoCredentialsError(),
        exceptions.NoRegionError(),
        ConnectionResetError(),
    )
    kinds = []
    for _ in range(5):
        with pytest.raises(Failed) as raised:
            await made.get(KEY)
        kinds.append(raised.value.kind)
        assert "secret" not in str(raised.value)
    assert kinds == ["slow", "unreachable", "credentials", "refused", "unreachable"]


async def test_the_table_itself_is_made_and_described() -> None:
    made, client = table(
        {"Table": {"TableStatus": "ACTIVE"}},
        {"TimeToLiveDescription": {"TimeToLiveStatus": "ENABLED"}},
        {},
        {},
        {},
        {"ResponseMetadata": {"HTTPHeaders": {"date": "today"}}},
        {},
    )
    assert await made.describe() == {"TableStatus": "ACTIVE"}
    assert await made.time_to_live() == {"TimeToLiveStatus": "ENABLED"}
    await made.create({"BillingMode": "PAY_PER_REQUEST"})
    await made.enable_time_to_live()
    await made.delete(KEY)
    assert await made.date() == "today"
    assert await made.layout() is None
    assert {arguments["TableName"] for _, arguments in client.asked} == {"pools"}
