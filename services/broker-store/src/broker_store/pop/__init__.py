"""POP of RocketMQ 5's remoting clients, mapped onto leases: a pop is a receive, its extra info names the lease."""
