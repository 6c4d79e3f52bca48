"""How large an expression may be. Constants: both ends of a connection must agree on them."""

EXPRESSION_CHARS_MAX = 32 * 1024
"""Longer expressions are refused before a character of them is read."""
DEPTH_MAX = 64
"""Brackets, NOT, signs and chains like `a = b = c` may nest this deep. AND, OR and IN may go on as long as there is room."""
