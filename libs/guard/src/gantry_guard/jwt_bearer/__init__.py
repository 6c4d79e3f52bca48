"""Optional JWT of an identity provider as HTTP bearers: its published keys, and the check of a token. Only this package knows PyJWT."""
