-- Messages that each group had not yet committed, by step of time: the end of each queue less the last offset sampled until then.
WITH ends AS (
  SELECT timestamp_seconds(unix_seconds(time) DIV :chart_step * :chart_step) AS time, broker, topic, queueId, max(lastOffset) + 1 AS end
  FROM traffic GROUP BY ALL
), taken AS (
  SELECT timestamp_seconds(unix_seconds(sampled) DIV :chart_step * :chart_step) AS time, broker, topic, queueId, group,
    max_by(committed, sampled) AS committed, max(end) AS end
  FROM samples GROUP BY ALL
), grid AS (
  SELECT time, broker, topic, queueId, group
  FROM (SELECT time FROM ends UNION SELECT time FROM taken) CROSS JOIN (SELECT DISTINCT broker, topic, queueId, group FROM taken)
), known AS (
  SELECT time, topic, group, broker, queueId,
    last(taken.committed, true) OVER sofar AS committed,
    greatest(max(ends.end) OVER sofar, max(taken.end) OVER sofar) AS end
  FROM grid LEFT JOIN ends USING (time, broker, topic, queueId) LEFT JOIN taken USING (time, broker, topic, queueId, group)
  WINDOW sofar AS (PARTITION BY broker, topic, queueId, group ORDER BY time)
)
SELECT time, group, topic, CAST(sum(greatest(end - committed, 0)) AS BIGINT) AS lag
FROM known WHERE committed IS NOT NULL
GROUP BY time, group, topic
ORDER BY group, topic, time
