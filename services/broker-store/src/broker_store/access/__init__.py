"""Users, policies and tokens: kept in the log, changed by requests, exchanged between the stores of a cluster."""
