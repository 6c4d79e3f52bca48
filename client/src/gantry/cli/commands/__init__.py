"""The commands, a module for each group of words: `PARTS` in `main` names them. Never prints but through the session's screen."""
