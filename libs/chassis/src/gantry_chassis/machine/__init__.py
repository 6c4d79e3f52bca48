"""What a process takes from its machine: clocks, threads, timers, addresses, memory, descriptors, private files."""
