"""The calls of the HTTP API, one file per subject. They parse, call one core, and shape the reply."""
