-- Stored to committed, milliseconds, an estimate: a sample says which offsets a group committed in the second before it; when they were stored is
-- interpolated between the first and last message of the step they lie in. What a group had committed before its first sample is not judged.
WITH moves AS (
  SELECT *, lag(committed) OVER (PARTITION BY broker, topic, queueId, group ORDER BY sampled) AS before FROM samples
), steps AS (
  SELECT time, broker, topic, queueId, min(firstOffset) AS firstOffset, max(lastOffset) AS lastOffset,
    unix_millis(min(firstStored)) AS firstMs, unix_millis(max(lastStored)) AS lastMs
  FROM traffic GROUP BY ALL
), pieces AS (
  SELECT group, moves.topic, unix_millis(sampled) - 500 AS takenMs, firstOffset, lastOffset, firstMs, lastMs,
    greatest(before, firstOffset) AS low, least(committed, lastOffset + 1) AS high
  FROM moves JOIN steps ON moves.broker = steps.broker AND moves.topic = steps.topic AND moves.queueId = steps.queueId
    AND before <= lastOffset AND committed > firstOffset
  WHERE before IS NOT NULL AND committed > before
), guessed AS (
  SELECT group, topic, high - low AS messages,
    greatest(takenMs - firstMs
      - if(lastOffset > firstOffset, (lastMs - firstMs) * ((low + high - 1) / 2 - firstOffset) / (lastOffset - firstOffset), 0), 0) AS ms
  FROM pieces WHERE high > low
)
SELECT
  group, topic, 'estimated from offset samples' AS how,
  CAST(sum(messages) AS BIGINT) AS measured,
  round(percentile(ms, 0.5, messages)) AS p50Ms, round(percentile(ms, 0.95, messages)) AS p95Ms,
  round(percentile(ms, 0.99, messages)) AS p99Ms, CAST(NULL AS DOUBLE) AS p999Ms, round(max(ms)) AS maxMs,
  CAST(NULL AS BIGINT) AS clockBehind
FROM guessed
GROUP BY group, topic
ORDER BY measured DESC, group, topic
