"""`python -m gantry_chassis.http.ask_health PORT`: exit status 0 when the service on that port of this host is ready.

For container health checks; the images have no curl. Standard library only, for a fast start.
"""

import socket
import sys

TIMEOUT_SECONDS = 3.0
ANSWER_BYTES_MAX = 4096


def is_ready(port: int, host: str = "127.0.0.1") -> bool:
    """Whether `GET /health/ready` answers 200."""
    try:
        with socket.create_connection((host, port), TIMEOUT_SECONDS) as connection:
            connection.settimeout(TIMEOUT_SECONDS)
            connection.sendall(b"GET /health/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return connection.recv(ANSWER_BYTES_MAX).startswith(b"HTTP/1.1 200 ")
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(0 if is_ready(int(sys.argv[1])) else 1)
