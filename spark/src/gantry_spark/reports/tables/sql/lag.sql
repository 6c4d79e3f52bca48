-- How far each group is behind when the report is taken (exact), its trend over the last ten steps of the samples (messages a minute), and about
-- how old its oldest unread message is (to the step).
WITH now AS (
  SELECT group, broker, topic, queueId, committed, greatest(maxOffset - greatest(committed, minOffset), 0) AS lag
  FROM committed JOIN bounds USING (broker, topic, queueId)
  WHERE NOT startswith(group, 'CID_RMQ_SYS_') -- the txn-checker's is held at its beginning on purpose
), unread AS (
  SELECT group, topic, min(firstStored) AS oldest
  FROM now JOIN traffic USING (broker, topic, queueId)
  WHERE lag > 0 AND lastOffset >= committed
  GROUP BY ALL
), trend AS (
  SELECT group, topic, regr_slope(lag, unix_seconds(time) / 60) AS perMinute
  FROM (SELECT *, row_number() OVER (PARTITION BY group, topic ORDER BY time DESC) AS back FROM lag_by_time)
  WHERE back <= 10
  GROUP BY ALL
)
SELECT
  group, topic, count(*) AS queues, CAST(sum(lag) AS BIGINT) AS lag, CAST(max(lag) AS BIGINT) AS fullestQueue,
  round(any_value(perMinute), 1) AS perMinute,
  round(CASE WHEN sum(lag) > 0 AND any_value(perMinute) < 0 THEN sum(lag) / -any_value(perMinute) END, 1) AS caughtUpInMinutes,
  CASE WHEN sum(lag) > 0 THEN :now_ms - unix_millis(any_value(oldest)) END AS oldestUnreadMs
FROM now LEFT JOIN trend USING (group, topic) LEFT JOIN unread USING (group, topic)
GROUP BY group, topic
ORDER BY lag DESC, group, topic
