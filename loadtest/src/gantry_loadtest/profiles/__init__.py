"""One module per profile: what it creates, what users do, who reads, and how results answer its question."""
