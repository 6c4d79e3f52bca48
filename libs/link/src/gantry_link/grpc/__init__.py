"""gRPC over HTTP/2: calls, streams, deadlines and statuses. Knows no message of a service."""
