"""What each request requires: by remoting code, HTTP route and gRPC method. A request without a row is refused."""
