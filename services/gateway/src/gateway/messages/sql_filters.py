"""SQL92 filters of clients: an invalid one is refused with the column and the expected input. Pure."""

from gantry_wire.sql92.compiling import SqlFilter, compile_filter
from gantry_wire.sql92.errors import MalformedSql
from gantry_wire.sql92.limits import EXPRESSION_CHARS_MAX
from gateway.http.problems import Problem, invalid


def checked_sql(expression: str, field: str) -> SqlFilter:
    """Return the compiled filter; raise 400 if it is too long, 422 if it is not a condition."""
    if len(expression) > EXPRESSION_CHARS_MAX:
        limit = f"{EXPRESSION_CHARS_MAX} characters"
        raise invalid(field, f"the filter has {len(expression)} characters, the limit is {limit}", limit)
    try:
        return compile_filter(expression)
    except MalformedSql as error:
        problem = Problem(
            422, "SUBSCRIPTION_PARSE_FAILED", f"the filter is no condition: {error}", field=field
        )
        problem.column, problem.expected = error.column, error.expected
        raise problem from error
