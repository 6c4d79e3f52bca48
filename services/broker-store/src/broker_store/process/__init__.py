"""How a store is put together and lives: parts, listeners, registration, care of the disk, stop in order. Decides nothing about a message."""
