"""What nothing can be faster than: an echo, a plain read, a sync. The references of the other programs."""
