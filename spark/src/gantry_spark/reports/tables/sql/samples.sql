-- The store's samples of committed offsets (GANTRY_SYS_OFFSETS): one row for each queue of a group that moved in that second.
SELECT broker, sample.group AS group, sample.topic AS topic, CAST(one[0] AS INT) AS queueId,
  timestamp_millis(sample.sampledAt) AS sampled, one[1] AS committed, one[2] AS end
FROM (
  SELECT broker, from_json(CAST(body AS STRING), 'group STRING, topic STRING, sampledAt BIGINT, queues ARRAY<ARRAY<BIGINT>>') AS sample
  FROM bodies WHERE topic = 'GANTRY_SYS_OFFSETS'
) LATERAL VIEW explode(sample.queues) AS one
WHERE NOT startswith(sample.group, 'CID_RMQ_SYS_')
