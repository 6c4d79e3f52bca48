"""The broker-store: the commit log, the queues derived from it, and the requests that read and write them."""
