-- Stored to consumed, milliseconds, exact: the time at which a consumer with tracing began with a message, less its store time.
SELECT
  group, topic, 'exact, from traces' AS how,
  count_if(ms >= 0) AS measured,
  percentile(ms, 0.5) FILTER (WHERE ms >= 0) AS p50Ms, percentile(ms, 0.95) FILTER (WHERE ms >= 0) AS p95Ms,
  percentile(ms, 0.99) FILTER (WHERE ms >= 0) AS p99Ms, percentile(ms, 0.999) FILTER (WHERE ms >= 0) AS p999Ms,
  max(ms) AS maxMs, count_if(ms < 0) AS clockBehind
FROM (
  SELECT group, topic, takenMs - unix_millis(stored) AS ms
  FROM traces JOIN stored_ids USING (uniqueKey)
)
GROUP BY group, topic
ORDER BY measured DESC, group, topic
