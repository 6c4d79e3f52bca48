"""The settings that the server gives a client: its own, with what topic and group decide. Pure."""

from typing import Final

from gateway.admin.group_options import RetryPolicy, read_policy
from gateway.grpc.proto.duration import duration
from gateway.grpc.proto.enums import ClientType, Language
from gateway.grpc.proto.settings import CustomizedBackoff, ExponentialBackoff, Metric, Settings
from gateway.grpc.proto.settings import RetryPolicy as Backoff
from gateway.ports.stores import GroupSettings

BODY_BYTES_MAX: Final = 4 * 1024 * 1024
"""The largest body of a message, as RocketMQ's proxy has it."""
PRODUCER_ATTEMPTS: Final = 3
_PRODUCER_BACKOFF: Final = RetryPolicy(initial_ms=10, multiplier=2.0, max_ms=1000)
RECEIVE_BATCH: Final = 32
LONG_POLLING_MS: Final = 20_000
RETRIES_DEFAULT: Final = 16
"""Of a group that no broker has yet."""
LITE_SUBSCRIPTIONS_MAX: Final = 2000
LITE_TOPIC_CHARS_MAX: Final = 64
_SECOND, _MINUTE = 1000, 60_000
_LEVELS: Final = RetryPolicy(
    (1 * _SECOND, 5 * _SECOND, 10 * _SECOND, 30 * _SECOND, *(n * _MINUTE for n in (*range(1, 11), 20, 30, 60, 120)))
)  # fmt: skip
"""The delays of a group without a policy of its own."""
_NODE_BACKOFF: Final = RetryPolicy(initial_ms=_SECOND, multiplier=2.0, max_ms=120 * _MINUTE)
_DELAYS_MAX: Final = 32
_LITE: Final = frozenset({int(ClientType.LITE_PUSH_CONSUMER), int(ClientType.LITE_SIMPLE_CONSUMER)})


def producer_settings(sent: Settings) -> Settings:
    """Return the answer to a producer. Each client checks the size itself; Node asserts that the backoff is exponential."""
    answer = _begun(sent)
    answer.publishing.max_body_size = BODY_BYTES_MAX
    answer.publishing.validate_message_type = True
    answer.backoff_policy.CopyFrom(
        Backoff(max_attempts=PRODUCER_ATTEMPTS, exponential_backoff=_exponential(_PRODUCER_BACKOFF))
    )
    return answer


def consumer_settings(sent: Settings, group: GroupSettings | None) -> Settings:
    """Return the answer to a consumer of this group. Some clients stop at settings without one of these fields."""
    answer = _begun(sent)
    subscription = answer.subscription
    subscription.fifo = is_fifo(group)
    subscription.receive_batch_size = RECEIVE_BATCH
    subscription.long_polling_timeout.CopyFrom(duration(LONG_POLLING_MS))
    if sent.client_type in _LITE:
        subscription.lite_subscription_quota = LITE_SUBSCRIPTIONS_MAX
        subscription.max_lite_topic_size = LITE_TOPIC_CHARS_MAX
    answer.backoff_policy.CopyFrom(backoff(group, sent.user_agent.language))
    return answer


def is_fifo(group: GroupSettings | None) -> bool:
    """Whether a group gets the messages of one sharding key one after the other."""
    return group is not None and bool(group.order)


def attempts_max(group: GroupSettings | None) -> int:
    """Return how often a message is delivered before it becomes a dead letter."""
    return 1 + (RETRIES_DEFAULT if group is None else group.retry_max_times)


def backoff(group: GroupSettings | None, language: int) -> Backoff:
    """Return how a group's consumers retry.

    Node's consumers know exponential growth alone, and Python's a list of delays alone; the others take either.
    """
    policy = read_policy(group.retry_policy) if group is not None else None
    attempts = attempts_max(group)
    match language:
        case Language.NODE_JS:
            return Backoff(
                max_attempts=attempts, exponential_backoff=_exponential(_as_growth(policy) or _NODE_BACKOFF)
            )
        case Language.PYTHON:
            return Backoff(max_attempts=attempts, customized_backoff=_customized(policy or _LEVELS))
        case _:
            policy = policy or _LEVELS
            if policy.delays_ms:
                return Backoff(max_attempts=attempts, customized_backoff=_customized(policy))
            return Backoff(max_attempts=attempts, exponential_backoff=_exponential(policy))


def _begun(sent: Settings) -> Settings:
    answer = Settings()
    answer.CopyFrom(sent)
    answer.metric.CopyFrom(Metric(on=False))
    return answer


def _as_growth(policy: RetryPolicy | None) -> RetryPolicy | None:
    """Return growing delays in place of a list: from its first to its largest."""
    if policy is None or not policy.delays_ms:
        return policy
    return RetryPolicy(initial_ms=policy.delays_ms[0], multiplier=2.0, max_ms=max(policy.delays_ms))


def _exponential(policy: RetryPolicy) -> ExponentialBackoff:
    return ExponentialBackoff(
        initial=duration(policy.initial_ms), max=duration(policy.max_ms), multiplier=policy.multiplier
    )


def _customized(policy: RetryPolicy) -> CustomizedBackoff:
    return CustomizedBackoff(next=[duration(delay_ms) for delay_ms in _delays_ms(policy)])


def _delays_ms(policy: RetryPolicy) -> list[int]:
    """Return a policy's delays; a growing one up to its largest."""
    if policy.delays_ms:
        return list(policy.delays_ms)
    delays, delay_ms = list[int](), float(policy.initial_ms)
    while len(delays) < _DELAYS_MAX:
        delays.append(min(int(delay_ms), policy.max_ms))
        if delay_ms >= policy.max_ms or policy.multiplier <= 1:
            break
        delay_ms *= policy.multiplier
    return delays
