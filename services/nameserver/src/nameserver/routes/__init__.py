"""Which broker has which queues: the tables, the rules that change them, and views of them. Pure."""
