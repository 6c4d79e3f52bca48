"""Bearer tokens of HTTP clients: their text, the hash that is stored, their scope and end."""
