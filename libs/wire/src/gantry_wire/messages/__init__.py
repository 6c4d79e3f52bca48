"""What a producer sends: properties, message ids, the body of a batch."""
