"""sql= in pulls: conditions over properties, and the problems of illegal ones."""

from __future__ import annotations

import pytest
from gateway_problem_check import check

pytestmark = pytest.mark.anyio
ORDERS = "/v1/topics/orders/messages"
QUEUE = "/v1/topics/orders/queues/broker-a"


async def test_a_condition_in_sql_selects_messages_and_the_offset_advances(client, system):
    for n in range(6):
        message = {"body": str(n), "queueId": 1, "properties": {"n": str(n), "kind": "ab"[n % 2]}}
        await client.post(ORDERS, json={"messages": [message]})
    answer = await client.get(f"{QUEUE}/1/messages", params={"sql": "n BETWEEN 1 AND 4 AND kind = 'b'"})
    assert [message["body"] for message in answer.json()["messages"]] == ["1", "3"]
    assert answer.json()["nextOffset"] == 6
    answer = (await client.get(f"{QUEUE}/1/messages", params={"sql": "n > 100"})).json()
    assert (answer["status"], answer["nextOffset"]) == ("NO_MATCHED_MSG", 6)


@pytest.mark.parametrize(
    ("sql", "column"), [("n >", 4), ("(n > 1", 7), ("n > 1)", 6), ("", 1), ("a = 'x", 5), ("n > 5 n", 7)]
)
async def test_an_illegal_condition_is_422_with_its_column(client, system, sql, column):
    answer = await client.get(f"{QUEUE}/1/messages", params={"sql": sql})
    problem = check(answer, 422, "sql")
    assert (problem["code"], problem["column"]) == ("SUBSCRIPTION_PARSE_FAILED", column)
    assert problem["expected"]
    assert "pull" not in system.stores["broker-a"].calls


async def test_a_condition_that_is_too_long_or_beside_tags_is_400(client):
    check(await client.get(f"{QUEUE}/1/messages", params={"sql": "a" * 33_000}), 400, "sql", "32768")
    check(await client.get(f"{QUEUE}/1/messages", params={"sql": "n > 1", "filter": "a"}), 400, "sql")
