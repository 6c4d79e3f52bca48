-- Roll-up: the bins of latency by the hour. Counts of bins add up exactly, and a 99.9th percentile of sums is as good as one of the log.
SELECT
  date_trunc('HOUR', time) AS time, topic, what, ms,
  CAST(sum(messages) AS BIGINT) AS messages, min(leastMs) AS leastMs, max(mostMs) AS mostMs
FROM latency_bins
GROUP BY 1, 2, 3, 4
ORDER BY time, topic, what, ms
