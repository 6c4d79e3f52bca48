"""Users, policies and tokens as a cluster keeps them: entries with a time, of which the newest counts."""
