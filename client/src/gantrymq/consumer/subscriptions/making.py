"""Creates subscriptions from the user's arguments: validated here, and an SQL92 condition by the brokers before the start."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from gantry_link.errors import BrokerRefused, LinkError
from gantry_wire.bodies.clients import CheckClientRequestBody
from gantry_wire.bodies.json_body import encode_body
from gantry_wire.codes import RequestCode
from gantry_wire.errors import IllegalName, MalformedExpression
from gantry_wire.names import RETRY_PREFIX, check_topic
from gantry_wire.subscription import SQL92, TAG
from gantrymq.connection.instance import ClientInstance
from gantrymq.consumer.subscriptions.subscription import Subscription
from gantrymq.errors import ConfigurationError, GantryError, NoRoute, sdk_error
from gantrymq.formats.namespaces import wrap

log: logging.Logger = logging.getLogger("gantrymq")


def make_subscription(
    namespace: str, topic: str, expression: str, sql: str | None, version: int
) -> Subscription:
    """Return the subscription of a topic. `version` is the time of the call (ms since 1970). Raises ConfigurationError."""
    for name, value in (("topic", topic), ("expression", expression), ("sql", sql or "")):
        if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance] - users without a type checker
            raise ConfigurationError(f"{name}: must be text, not {value!r}")
    try:
        wire_topic = wrap(namespace, topic)
        check_topic(wire_topic)
        if sql is None:
            return Subscription(wire_topic, expression.strip() or "*", TAG, version)
    except (IllegalName, MalformedExpression) as error:
        raise ConfigurationError(f"subscription of {topic!r}: {error}") from error
    if expression != "*":
        raise ConfigurationError(f"subscription of {topic!r}: give tags or sql, not both")
    if not sql.strip():
        raise ConfigurationError(f"subscription of {topic!r}: the SQL92 condition is empty")
    return Subscription(wire_topic, sql, SQL92, version)


async def find_routes(instance: ClientInstance, subscriptions: Mapping[str, Subscription]) -> None:
    """Query the routes of the topics, so that their brokers get heartbeats. Topics that do not exist yet are queried again later."""
    for topic in list(subscriptions):
        if not topic.startswith(RETRY_PREFIX):
            try:
                await instance.route(topic)
            except NoRoute:
                continue
            except GantryError as error:
                log.warning("heartbeats have no recipient yet: %s", error)
                return


async def check_sql(instance: ClientInstance, group: str, subscriptions: Mapping[str, Subscription]) -> None:
    """Have a broker of each topic validate its SQL92 condition (46). Raises GantryError for an invalid one."""
    for subscription in subscriptions.values():
        if subscription.kind != SQL92:
            continue
        try:
            queues = await instance.subscribe_queues(subscription.topic)
        except NoRoute:
            continue  # the topic does not exist yet: its pulls will be refused with the reason
        if not queues:
            continue
        body = CheckClientRequestBody(
            client_id=instance.client_id,
            group=group,
            namespace=instance.settings.namespace or None,
            subscription_data=subscription.data(),
        )
        try:
            await instance.store(queues[0].broker).ask(
                RequestCode.CHECK_CLIENT_CONFIG, None, encode_body(body)
            )
        except (BrokerRefused, LinkError) as error:
            raise sdk_error(
                error, f"subscribing {subscription.topic} with {subscription.expression!r}"
            ) from error
