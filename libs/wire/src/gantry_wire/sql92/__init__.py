"""SQL92 subscriptions: an expression compiled once, then asked about the property bytes of each message.

Grammar, conversions and three-valued logic are those of RocketMQ 5.3.3. Text behind a whole expression is refused here, where
RocketMQ passes over it in silence. Knows no queue and no record.
"""

from gantry_wire.sql92.compiling import SqlFilter, compile_filter
from gantry_wire.sql92.errors import MalformedSql
from gantry_wire.sql92.limits import DEPTH_MAX, EXPRESSION_CHARS_MAX

__all__ = ["DEPTH_MAX", "EXPRESSION_CHARS_MAX", "MalformedSql", "SqlFilter", "compile_filter"]
