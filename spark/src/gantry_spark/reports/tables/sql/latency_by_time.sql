-- Born to stored over time, all users' topics together.
SELECT
  timestamp_seconds(unix_seconds(time) DIV :chart_step * :chart_step) AS time,
  CAST(sum(messages) AS BIGINT) AS measured,
  percentile(ms, 0.5, messages) AS p50Ms, percentile(ms, 0.95, messages) AS p95Ms,
  percentile(ms, 0.99, messages) AS p99Ms, percentile(ms, 0.999, messages) AS p999Ms
FROM latency_bins
WHERE what = 'measured'
GROUP BY 1
ORDER BY time
