"""What is wrong with a header block."""


class HpackError(Exception):
    """A header block breaks RFC 7541. The tables of both sides differ from then on, so the connection ends (COMPRESSION_ERROR)."""


class HeadersTooLarge(Exception):
    """A list of headers is larger than allowed. The block was read to its end, so the tables are right: one stream ends."""
