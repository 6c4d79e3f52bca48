"""One request or reply as bytes: the stream, the frame, its header, its command."""
