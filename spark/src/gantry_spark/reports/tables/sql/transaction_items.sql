-- Each transaction, from all copies of its half message (each check makes one): committed where a message names one of them, parked where it was
-- given up, rolled back where the op message of its newest copy stands alone, else open.
WITH copies AS (
  SELECT
    broker, coalesce(uniqueKey, CAST(physicalOffset AS STRING)) AS id, realTopic AS topic, producerGroup, queueOffset, physicalOffset,
    coalesce(CAST(checkTimes AS INT), 0) AS checks, coalesce(timestamp_millis(CAST(begunMs AS BIGINT)), stored) AS begun
  FROM items WHERE topic = 'RMQ_SYS_TRANS_HALF_TOPIC' AND isInRange
), ops AS (
  SELECT broker, CAST(half AS BIGINT) AS queueOffset, min(stored) AS done
  FROM (SELECT broker, stored, explode(split(CAST(body AS STRING), ',')) AS half FROM op_bodies)
  WHERE half RLIKE '^[0-9]{1,18}$'
  GROUP BY ALL
), commits AS (
  SELECT broker, preparedTransactionOffset AS physicalOffset, min(stored) AS committed
  FROM results WHERE sysFlag & 12 = 8 GROUP BY ALL
), parked AS (
  SELECT broker, uniqueKey AS id, min(stored) AS parked FROM items WHERE topic = 'TRANS_CHECK_MAX_TIME_TOPIC' GROUP BY ALL
), together AS (
  SELECT
    broker, id, max(topic) AS topic, max(producerGroup) AS producerGroup, min(begun) AS begun, max(checks) AS checks,
    min(committed) AS committed, max_by(done, queueOffset) AS done
  FROM copies LEFT JOIN ops USING (broker, queueOffset) LEFT JOIN commits USING (broker, physicalOffset)
  GROUP BY broker, id
), judged AS (
  SELECT together.*, parked,
    CASE WHEN committed IS NOT NULL THEN 'committed' WHEN parked IS NOT NULL THEN 'parked'
      WHEN done IS NOT NULL THEN 'rolled back' ELSE 'open' END AS state
  FROM together LEFT JOIN parked USING (broker, id)
)
SELECT *,
  CASE state WHEN 'committed' THEN unix_millis(committed) WHEN 'rolled back' THEN unix_millis(done) END - unix_millis(begun) AS resolveMs,
  CASE WHEN state = 'open' THEN :now_ms - unix_millis(begun) END AS openMs
FROM judged
