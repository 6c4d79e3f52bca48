"""The commands, a module for each group of commands: `PARTS` in `main` names them. All output goes through the session's screen."""
