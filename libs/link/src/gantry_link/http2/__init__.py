"""HTTP/2 on asyncio: connections over `gantry_h2`, and the port that accepts them. Knows nothing of gRPC."""
