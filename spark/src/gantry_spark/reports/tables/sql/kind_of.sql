-- What a topic is for: users' messages, another try, dead letters, or the system's own.
CREATE OR REPLACE TEMPORARY FUNCTION kind_of(topic STRING) RETURNS STRING
RETURN CASE
  WHEN startswith(topic, 'GANTRY_SYS_') OR startswith(topic, 'RMQ_SYS_') OR startswith(topic, 'rmq_sys_')
    OR topic IN ('SCHEDULE_TOPIC_XXXX', 'TRANS_CHECK_MAX_TIME_TOPIC', 'OFFSET_MOVED_EVENT') THEN 'system'
  WHEN startswith(topic, '%RETRY%') THEN 'retry'
  WHEN startswith(topic, '%DLQ%') THEN 'dead letters'
  ELSE 'user'
END
