-- Each delayed message: when it was due, and when it was delivered. What results from it names it in its mark (queue and offset of where it
-- waited); in a log that RocketMQ wrote there are no marks, and the delivered copy is the next one of the same message id.
WITH asked AS (
  SELECT
    broker, topic, queueId, queueOffset, uniqueKey, realTopic, stored,
    if(topic = 'SCHEDULE_TOPIC_XXXX', concat('level ', queueId + 1, ' (', levels.word, ')'), 'instant') AS kind,
    if(topic = 'SCHEDULE_TOPIC_XXXX', queueId + 1, 1000000) AS place,
    if(topic = 'SCHEDULE_TOPIC_XXXX', unix_millis(stored) + levels.ms, CAST(timerOutMs AS BIGINT)) AS dueMs
  FROM items LEFT JOIN levels ON topic = 'SCHEDULE_TOPIC_XXXX' AND level = queueId + 1
  WHERE topic IN ('SCHEDULE_TOPIC_XXXX', 'rmq_sys_wheel_timer') AND isInRange
), marked AS (
  SELECT broker, mark[0] AS topic, CAST(mark[1] AS INT) AS queueId, CAST(mark[2] AS BIGINT) AS queueOffset,
    min(stored) FILTER (WHERE kind_of(topic) <> 'system') AS delivered
  FROM (SELECT *, split(settled, ':') AS mark FROM results WHERE settled IS NOT NULL)
  WHERE mark[3] = ''
  GROUP BY ALL
), same_id AS (
  SELECT asked.broker, asked.topic, asked.queueId, asked.queueOffset, min(results.stored) AS delivered
  FROM asked JOIN results
    ON results.broker = asked.broker AND results.uniqueKey = asked.uniqueKey AND results.topic = asked.realTopic
  WHERE results.settled IS NULL AND results.realTopic IS NOT NULL AND results.stored >= asked.stored
  GROUP BY ALL
)
SELECT
  asked.*, coalesce(marked.delivered, same_id.delivered) AS delivered,
  unix_millis(coalesce(marked.delivered, same_id.delivered)) - dueMs AS lateMs,
  CASE
    WHEN coalesce(marked.delivered, same_id.delivered) IS NOT NULL THEN 'delivered'
    WHEN marked.topic IS NOT NULL THEN 'cancelled or moved'
    WHEN dueMs > :now_ms THEN 'waiting'
    ELSE 'overdue'
  END AS state
FROM asked
LEFT JOIN marked USING (broker, topic, queueId, queueOffset)
LEFT JOIN same_id USING (broker, topic, queueId, queueOffset)
