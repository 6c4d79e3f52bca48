"""Known heads: `cut` accepts exactly one whole request."""

from gateway.connection.fast_protocol import cut

WHOLE = b"POST /a HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\nx: y\r\n\r\nabc"


def test_only_exactly_one_whole_request_is_cut():
    found = cut(WHOLE)
    assert found is not None
    assert WHOLE[found[1] :] == b"abc"
    assert all(cut(WHOLE[:size]) is None for size in range(len(WHOLE)))
    assert cut(WHOLE + b"P") is None
    longer = cut(WHOLE.replace(b"h: 3", b"h: 10") + b"defghij")
    assert longer is not None
    assert longer[0] == found[0]
    for other in (b": +3", b": 3 ", b": 0x3", b":  3", b": \xb3"):
        assert cut(WHOLE.replace(b": 3", other)) is None
    assert cut(WHOLE.replace(b"\r\ncontent-length", b"\r\nx-content-length")) is None
