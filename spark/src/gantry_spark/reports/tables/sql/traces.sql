-- First deliveries that consumers with tracing reported (SubBefore records of RMQ_SYS_TRACE_TOPIC).
SELECT field[3] AS group, field[5] AS uniqueKey, min(CAST(field[1] AS BIGINT)) AS takenMs
FROM (
  SELECT split(record, '\u0001') AS field
  FROM (SELECT explode(split(CAST(body AS STRING), '\u0002')) AS record FROM bodies WHERE topic = 'RMQ_SYS_TRACE_TOPIC')
  WHERE startswith(record, 'SubBefore')
)
WHERE size(field) > 6 AND field[6] = '0'
GROUP BY ALL
