"""SQL92 filters: compiles an expression once, then evaluates it on the property bytes of each message.

Grammar, conversions and three-valued logic match RocketMQ 5.3.3. One difference: text after a complete expression is an error
here; RocketMQ ignores it silently. Knows no queues and no records.
"""

from gantry_wire.sql92.compiling import SqlFilter, compile_filter
from gantry_wire.sql92.errors import MalformedSql
from gantry_wire.sql92.limits import DEPTH_MAX, EXPRESSION_CHARS_MAX

__all__ = ["DEPTH_MAX", "EXPRESSION_CHARS_MAX", "MalformedSql", "SqlFilter", "compile_filter"]
