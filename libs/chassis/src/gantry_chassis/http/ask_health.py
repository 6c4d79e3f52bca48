"""`python -m gantry_chassis.http.ask_health PORT`: exit status 0 when the service on that port of this host is ready.

For container health checks; the images have no curl. Where the port demands a client certificate, it shows the one that the service in the
container shows others: the variables that end in `_TLS_CLIENT_CERT_FILE` and `_TLS_CLIENT_KEY_FILE`. Standard library only, for a fast start.
"""

import os
import socket
import sys

TIMEOUT_SECONDS = 3.0
ANSWER_BYTES_MAX = 4096


def is_ready(port: int, host: str = "127.0.0.1") -> bool:
    """Whether `GET /health/ready` answers 200, by HTTP or, where plain connections are closed, by HTTPS."""
    try:
        answer = _answer(port, host, is_tls=False) or _answer(port, host, is_tls=True)
    except OSError:
        return False
    return answer.startswith(b"HTTP/1.1 200 ")


def _answer(port: int, host: str, *, is_tls: bool) -> bytes:
    """Return the begin of the answer; empty if the port closes the connection. Raises OSError."""
    with socket.create_connection((host, port), TIMEOUT_SECONDS) as connection:
        connection.settimeout(TIMEOUT_SECONDS)
        if not is_tls:
            return _asked(connection)
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False  # the certificate names other hosts, and nothing secret is sent
        context.verify_mode = ssl.CERT_NONE
        if certificate := _variable("_TLS_CLIENT_CERT_FILE"):
            context.load_cert_chain(certificate, _variable("_TLS_CLIENT_KEY_FILE") or None, password="")
        with context.wrap_socket(connection) as secure:
            return _asked(secure)


def _variable(end: str) -> str:
    """Return the value of the variable whose name ends so; empty without one. A container has the variables of one service."""
    return next((value for name, value in os.environ.items() if name.endswith(end)), "")


def _asked(connection: socket.socket) -> bytes:
    try:
        connection.sendall(b"GET /health/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return connection.recv(ANSWER_BYTES_MAX)
    except ConnectionError:
        return b""


if __name__ == "__main__":
    sys.exit(0 if is_ready(int(sys.argv[1])) else 1)
