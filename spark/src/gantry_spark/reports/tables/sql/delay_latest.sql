-- The latest twenty, and what is overdue: due before the report and not seen in its topic.
SELECT kind, realTopic AS topic, uniqueKey AS messageId, state, timestamp_millis(dueMs) AS due, delivered, lateMs
FROM delay_items
WHERE state = 'overdue' OR lateMs > 0
ORDER BY state DESC, lateMs DESC NULLS LAST, due
LIMIT 20
