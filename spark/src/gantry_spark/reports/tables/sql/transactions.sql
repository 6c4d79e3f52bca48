-- Transactions by topic and producer group: what became of them, how long that took (ms), how often their producer was asked.
SELECT
  topic, producerGroup, count(*) AS begun,
  count_if(state = 'committed') AS committed, count_if(state = 'rolled back') AS rolledBack,
  count_if(state = 'parked') AS parked, count_if(state = 'open') AS open,
  percentile(resolveMs, 0.5) AS p50Ms, percentile(resolveMs, 0.99) AS p99Ms, max(resolveMs) AS maxMs,
  max(openMs) AS oldestOpenMs, CAST(sum(checks) AS BIGINT) AS checks, max(checks) AS mostChecks
FROM transaction_items
GROUP BY topic, producerGroup
ORDER BY begun DESC, topic, producerGroup
