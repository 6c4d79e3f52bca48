"""What the processes of a life keep in memory: each structure with its bound, counted at some moments and once everything is quiet."""
