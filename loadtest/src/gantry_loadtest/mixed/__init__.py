"""Mixed traffic of every kind over HTTP, and the books that judge it: shared by kill tests and the endurance run."""
