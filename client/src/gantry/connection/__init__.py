"""One client of one cluster: connections, routes, heartbeats, what brokers ask. Shared by producers and consumers, and never knows either."""
