"""One module per family of commands: parse, call, reply. No rule of the business lives here."""
