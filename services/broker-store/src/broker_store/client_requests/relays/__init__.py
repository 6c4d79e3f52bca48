"""Questions of tools that only a client can answer: passed on to it, its answer passed back."""
