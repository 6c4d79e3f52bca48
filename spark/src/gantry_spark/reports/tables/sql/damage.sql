-- What could not be read: each damaged piece of a log, where it lies, and why it was passed over.
SELECT broker, position, size, why FROM quarantine ORDER BY broker, position
