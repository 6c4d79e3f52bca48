"""Encodes and decodes Gantry's frames, headers, bodies and records. Pure: no sockets, no files, no clock."""
