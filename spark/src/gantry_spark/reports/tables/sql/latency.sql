-- Born to stored, milliseconds, by topic and of all; quantiles from bins (at most 1/64 off). What was born after it was stored tells of a clock
-- that runs ahead: counted, and in no quantile.
SELECT
  coalesce(topic, 'all topics') AS topic,
  CAST(sum(messages) FILTER (WHERE what = 'measured') AS BIGINT) AS measured,
  percentile(ms, 0.5, messages) FILTER (WHERE what = 'measured') AS p50Ms,
  percentile(ms, 0.95, messages) FILTER (WHERE what = 'measured') AS p95Ms,
  percentile(ms, 0.99, messages) FILTER (WHERE what = 'measured') AS p99Ms,
  percentile(ms, 0.999, messages) FILTER (WHERE what = 'measured') AS p999Ms,
  max(mostMs) FILTER (WHERE what = 'measured') AS maxMs,
  CAST(coalesce(sum(messages) FILTER (WHERE what = 'ahead'), 0) AS BIGINT) AS clockAhead,
  -min(leastMs) FILTER (WHERE what = 'ahead') AS mostAheadMs,
  CAST(coalesce(sum(messages) FILTER (WHERE what = 'later'), 0) AS BIGINT) AS storedLater
FROM latency_bins
GROUP BY GROUPING SETS ((topic), ())
HAVING count(*) > 0
ORDER BY topic = 'all topics' DESC, measured DESC NULLS LAST, topic
