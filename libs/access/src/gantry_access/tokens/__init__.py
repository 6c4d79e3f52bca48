"""Bearer tokens of HTTP clients: their text, the hash that is stored, their scope and end."""

from gantry_access.tokens.errors import MalformedToken, TokenExpired, TokenRefused, TokenUnknown
from gantry_access.tokens.scope import ScopeEntry, is_in_scope
from gantry_access.tokens.stored_token import StoredToken, verify_token
from gantry_access.tokens.token_text import RANDOM_SIZE, TOKEN_PREFIX, token_hash, token_text

__all__ = [
    "RANDOM_SIZE",
    "TOKEN_PREFIX",
    "MalformedToken",
    "ScopeEntry",
    "StoredToken",
    "TokenExpired",
    "TokenRefused",
    "TokenUnknown",
    "is_in_scope",
    "token_hash",
    "token_text",
    "verify_token",
]
