"""CPU of one path inside one process, without sockets."""
