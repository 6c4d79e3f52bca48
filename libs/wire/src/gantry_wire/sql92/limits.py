"""Size limits of an expression. Constants: both ends of a connection must agree on them."""

EXPRESSION_CHARS_MAX = 32 * 1024
"""A longer expression is refused before it is parsed."""
DEPTH_MAX = 64
"""Maximum nesting of brackets, NOT, signs and chains like `a = b = c`. Only the expression's size limits AND, OR and IN."""
