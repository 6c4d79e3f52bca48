"""The HTTP/1.1 connection of every service: uvicorn's protocol, which reads a request with an `Upgrade` as one without.

No service speaks another protocol on its HTTP port, so an upgrade is ignored (RFC 9110, section 7.8) and the body belongs to the request.
Java's HttpClient asks for h2c with every first request. The parser below ends the message behind the head of such a request: what follows
is lost, or read as the next request.
"""

from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class HttpConnection(HttpToolsProtocol):
    """Reads a request that asks for an upgrade a second time, without the asking."""

    _is_read_again = False
    """The head at hand asks for an upgrade: nothing begins before it is read again without."""
    _refusal = ""
    """Why the request at hand cannot be read, where the parser does not know."""

    def data_received(self, data: bytes) -> None:
        """Read what came."""
        self._unset_keepalive_if_required()
        rest: bytes | memoryview = data
        while True:
            try:
                self.parser.feed_data(rest)
            except httptools.HttpParserError:
                self.send_400_response("Invalid HTTP request received.")
                return
            except httptools.HttpParserUpgrade as asked:
                rest = memoryview(rest)[asked.args[0] :]
                if not self._read_head_again():
                    return
            else:
                return

    def on_headers_complete(self) -> None:
        """Begin the call, unless the head has to be read again."""
        if self.parser.should_upgrade():
            if self.parser.get_method() == b"CONNECT":
                self._refusal = "CONNECT is not served: this is no proxy"
                raise ValueError(self._refusal)
            self._is_read_again = True
            return
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Note that the request is whole, unless only its head was."""
        if not self._is_read_again:
            super().on_message_complete()

    def _read_head_again(self) -> bool:
        """Give the head without its `Upgrade` to a new parser, which then goes on with the body; False when that refuses it."""
        asked = self.parser
        head = [b"%b %b HTTP/%b" % (asked.get_method(), self.url, asked.get_http_version().encode())]
        head += [b"%b: %b" % (name, value) for name, value in self.headers if name != b"upgrade"]
        self._is_read_again = False
        self.parser = _new_parser(self)
        try:
            self.parser.feed_data(b"\r\n".join([*head, b"", b""]))
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")
            return False
        return True


def _new_parser(connection: HttpConnection) -> Any:
    """Return a parser with the settings that uvicorn gives its own."""
    parser = httptools.HttpRequestParser(connection)
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser
