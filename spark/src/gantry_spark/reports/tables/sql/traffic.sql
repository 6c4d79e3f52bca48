-- Every message counted once, by step of time, queue and size of its body (in powers of two; -1: empty). The one pass over the log counts each
-- piece where it is read (`counted`); other tables add these up.
SELECT
  time, broker, topic, queueId, CAST(bin AS INT) AS sizeBin,
  messages, bytes, bodyBytes, CAST(most AS INT) AS largestBody, firstOffset, lastOffset, firstStored, lastStored
FROM counted
WHERE part = 'traffic'
