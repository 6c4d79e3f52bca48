"""What the log stores: the records of messages, and the files derived from them."""
