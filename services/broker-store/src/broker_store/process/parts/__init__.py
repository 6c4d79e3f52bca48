"""The parts of a store, each assembled over those below it: the sending and the reading half, leases, transactions, tools."""
