"""A stream from stores into Parquet that runs until it is killed: python stream_program.py DATA TOPIC FOLDER [SETTING=VALUE…]."""

import sys

from gantry_spark.session import session


def writer(spark, data: str, topic: str, folder: str, batch: str):
    """Return the stream, to be started: rows into FOLDER/rows, progress into FOLDER/checkpoint, `batch` bytes a batch."""
    source = spark.readStream.format("gantry").options(
        path=data,
        topic=topic,
        startingOffsets="earliest",
        maxBytesPerTrigger=batch,
        columns="brokerName,queueId,queueOffset,body",
    )
    stream = source.load().writeStream.format("parquet").option("checkpointLocation", f"{folder}/checkpoint")
    return stream.option("path", f"{folder}/rows")


if __name__ == "__main__":
    data, topic, folder, *settings = sys.argv[1:]
    chosen = dict(setting.split("=", 1) for setting in settings)
    running = session("killed", master="local[1]", settings={"spark.driver.memory": "512m", **chosen})
    writer(running, data, topic, folder, "200k").start().awaitTermination()
