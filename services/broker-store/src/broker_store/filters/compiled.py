"""Compiles expressions, each once however many pulls carry it. Pure."""

from functools import lru_cache

from gantry_wire.codes import ResponseCode
from gantry_wire.errors import RefusedRequest
from gantry_wire.sql92.compiling import SqlFilter, compile_filter
from gantry_wire.sql92.errors import MalformedSql
from gantry_wire.subscription import SQL92, TAG

KEPT_MAX = 512
"""Compiled expressions kept. One more costs a compilation, never a refusal."""


@lru_cache(maxsize=KEPT_MAX)
def compiled(expression: str) -> SqlFilter:
    """Return the filter of an expression. Raises MalformedSql."""
    return compile_filter(expression)


def compile_or_refuse(expression_type: str, expression: str) -> SqlFilter:
    """Return the filter of a subscription that is not by tag.

    Raises RefusedRequest with the column and what was expected.
    """
    refuse_unknown_type(expression_type)
    try:
        return compiled(expression)
    except MalformedSql as error:
        remark = f"parse the consumer's subscription failed: {error}"
        fields = {"column": str(error.column), "expected": error.expected}
        raise RefusedRequest(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark, fields) from error


def refuse_unknown_type(expression_type: str) -> None:
    """Raise SUBSCRIPTION_PARSE_FAILED for an expression type other than TAG and SQL92."""
    if expression_type not in {TAG, SQL92}:
        remark = f"expression type {expression_type[:64]!r} is not known: use {TAG} or {SQL92}"
        raise RefusedRequest(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark)


def refuse_class_filter() -> RefusedRequest:
    """Return the refusal of a class filter, which would run a client's code in the broker."""
    remark = f"filtering by class is not supported: subscribe by {TAG} or {SQL92} instead"
    return RefusedRequest(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark)
