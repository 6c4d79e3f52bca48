"""The bytes of Gantry: frames, headers, records, bodies. Pure: no sockets, no files, no clock."""
