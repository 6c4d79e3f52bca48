-- Messages and bytes of users' topics by step of time; the topics beyond the seven largest are one.
WITH largest AS (
  SELECT topic, row_number() OVER (ORDER BY sum(messages) DESC, topic) AS place
  FROM traffic WHERE kind_of(topic) <> 'system' GROUP BY topic
)
SELECT
  timestamp_seconds(unix_seconds(time) DIV :chart_step * :chart_step) AS time,
  if(place <= 7, topic, 'other topics') AS topic,
  min(place) AS place,
  CAST(sum(messages) AS BIGINT) AS messages,
  CAST(sum(bytes) AS BIGINT) AS bytes
FROM traffic JOIN largest USING (topic)
GROUP BY 1, 2
ORDER BY time, place
