"""HTTP/2 for servers, without IO."""
