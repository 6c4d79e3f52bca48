"""The gateway's problems as codes of RocketMQ's gRPC protocol. Pure.

A client counts OK, MULTIPLE_RESULTS and MESSAGE_NOT_FOUND as success, so no problem has one of these.
"""

from collections.abc import Sequence

from gantry_wire.private_requests.access_change import CONFLICT
from gantry_wire.private_requests.leading import NO_LEASE, NOT_LEADER
from gantry_wire.private_requests.leases import FILTER_CONFLICT
from gateway.grpc.proto.common import Status
from gateway.grpc.proto.enums import Code
from gateway.http.problems import Problem


class Refused(Exception):
    """A call, or one entry of it, that is refused; `code` and `detail` become its status."""

    def __init__(self, code: Code, detail: str) -> None:
        super().__init__(detail)
        self.code, self.detail = code, detail


CODES: dict[str, Code] = {
    "ACCESS_OFF": Code.NOT_IMPLEMENTED,
    "ALREADY_DELIVERED": Code.PRECONDITION_FAILED,
    "BROKER_NOT_EXIST": Code.BAD_REQUEST,
    CONFLICT: Code.PRECONDITION_FAILED,
    "DELAY_ILLEGAL": Code.ILLEGAL_DELIVERY_TIME,
    "DELAY_TOO_LONG": Code.ILLEGAL_DELIVERY_TIME,
    "DISK_FULL": Code.INTERNAL_SERVER_ERROR,
    FILTER_CONFLICT: Code.ILLEGAL_FILTER_EXPRESSION,
    "FLUSH_DISK_TIMEOUT": Code.MASTER_PERSISTENCE_TIMEOUT,
    "FLUSH_SLAVE_TIMEOUT": Code.SLAVE_PERSISTENCE_TIMEOUT,
    "IDEMPOTENCY_CONFLICT": Code.PRECONDITION_FAILED,
    "INDEX_BUILDING": Code.INTERNAL_SERVER_ERROR,
    "INVALID_PARAMETER": Code.BAD_REQUEST,
    "LEADS_ALREADY": Code.PRECONDITION_FAILED,
    "LEAD_CANNOT_MOVE": Code.PRECONDITION_FAILED,
    "MESSAGE_ILLEGAL": Code.BAD_REQUEST,
    "METHOD_NOT_ALLOWED": Code.NOT_IMPLEMENTED,
    "NOT_FOUND": Code.NOT_FOUND,
    "NOT_SERVING": Code.INTERNAL_SERVER_ERROR,
    "NO_PERMISSION": Code.FORBIDDEN,
    "NO_REPLICAS": Code.PRECONDITION_FAILED,
    "POLICY_NOT_EXIST": Code.NOT_FOUND,
    "QUERY_NOT_FOUND": Code.NOT_FOUND,
    "RATE_LIMITED": Code.TOO_MANY_REQUESTS,
    "REPAIR_AWAITED": Code.HA_NOT_AVAILABLE,
    "REQUEST_CODE_NOT_SUPPORTED": Code.NOT_IMPLEMENTED,
    "REQUEST_TIMEOUT": Code.REQUEST_TIMEOUT,
    "REQUEST_TOO_LARGE": Code.PAYLOAD_TOO_LARGE,
    "ROTATION_OPEN": Code.PRECONDITION_FAILED,
    "SERVICE_NOT_AVAILABLE": Code.INTERNAL_SERVER_ERROR,
    "SLAVE_NOT_AVAILABLE": Code.HA_NOT_AVAILABLE,
    "STORE_STOPPED": Code.INTERNAL_SERVER_ERROR,
    "SUBSCRIPTION_GROUP_NOT_EXIST": Code.CONSUMER_GROUP_NOT_FOUND,
    "SUBSCRIPTION_PARSE_FAILED": Code.ILLEGAL_FILTER_EXPRESSION,
    "SYSTEM_BUSY": Code.TOO_MANY_REQUESTS,
    "SYSTEM_ERROR": Code.INTERNAL_SERVER_ERROR,
    "TOKEN_NOT_EXIST": Code.NOT_FOUND,
    "TOO_FEW_REPLICAS": Code.HA_NOT_AVAILABLE,
    "TOO_MANY_TOKENS": Code.PRECONDITION_FAILED,
    "TOPIC_NOT_EXIST": Code.TOPIC_NOT_FOUND,
    "TRANSACTION_DECIDED": Code.PRECONDITION_FAILED,
    "UNAUTHORIZED": Code.UNAUTHORIZED,
    "UNKNOWN_WHETHER_STORED": Code.PROXY_TIMEOUT,
    "UNSUPPORTED_MEDIA_TYPE": Code.BAD_REQUEST,
    "USER_EXISTS": Code.PRECONDITION_FAILED,
    "USER_NOT_EXIST": Code.NOT_FOUND,
    NOT_LEADER: Code.HA_NOT_AVAILABLE,
    NO_LEASE: Code.HA_NOT_AVAILABLE,
}
"""The code of each of the gateway's codes, unless the field at fault has a code of its own."""

_BY_FIELD: dict[str, Code] = {
    "topic": Code.ILLEGAL_TOPIC,
    "group": Code.ILLEGAL_CONSUMER_GROUP,
    "filter": Code.ILLEGAL_FILTER_EXPRESSION,
    "sql": Code.ILLEGAL_FILTER_EXPRESSION,
    "tag": Code.ILLEGAL_MESSAGE_TAG,
    "keys": Code.ILLEGAL_MESSAGE_KEY,
    "shardingKey": Code.ILLEGAL_MESSAGE_GROUP,
    "properties": Code.ILLEGAL_MESSAGE_PROPERTY_KEY,
    "deliverAt": Code.ILLEGAL_DELIVERY_TIME,
    "invisibleMs": Code.ILLEGAL_INVISIBLE_TIME,
    "offset": Code.ILLEGAL_OFFSET,
}
_OF_FIELDS = frozenset({"INVALID_PARAMETER", "NO_PERMISSION"})
"""Codes whose field says more than they do."""
_CLIENT_ERRORS = range(400, 500)


def code_of(problem: Problem) -> Code:
    """Return the protocol's code of a problem. A code that a newer store made up counts by its HTTP status."""
    if problem.code in _OF_FIELDS and problem.field in _BY_FIELD:
        return _BY_FIELD[problem.field]
    if problem.code == "MESSAGE_ILLEGAL" and problem.status == 413:
        return Code.MESSAGE_BODY_TOO_LARGE
    code = CODES.get(problem.code)
    if code is None:
        return Code.BAD_REQUEST if problem.status in _CLIENT_ERRORS else Code.INTERNAL_SERVER_ERROR
    return code


def status(code: Code, message: str = "") -> Status:
    """Return a status; its text is the code's name by default."""
    return Status(code=code, message=message or code.name)


def common_status(statuses: Sequence[Status]) -> Status:
    """Return the status of a call with a result for each of its entries: theirs if they agree on the code."""
    first = statuses[0]
    return first if all(one.code == first.code for one in statuses) else status(Code.MULTIPLE_RESULTS)


def status_of(error: Problem | Refused) -> Status:
    """Return the status of a refusal."""
    return status(error.code if isinstance(error, Refused) else code_of(error), error.detail)
