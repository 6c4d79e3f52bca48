"""Where clients find queues: routes, assignments, and the address of the port."""
