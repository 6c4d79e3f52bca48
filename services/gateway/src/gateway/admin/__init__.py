"""Topics, groups, offsets, dead letters, brokers and report files. Never on the path of a message."""
