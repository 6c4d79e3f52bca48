"""One run, from its plan to its exit status. The only place that knows Locust."""
