"""One module a profile: what it makes, what its users do, who reads, and how its figures answer its question."""
