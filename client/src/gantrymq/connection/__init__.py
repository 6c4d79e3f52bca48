"""A client of a cluster: connections, routes, heartbeats, requests from brokers. Shared by producers and consumers, and independent of both."""
