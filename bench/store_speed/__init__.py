"""One store, over remoting."""
