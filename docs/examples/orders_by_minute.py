"""A chart of your own from the log: orders by minute, queried in SQL, drawn as an SVG.

python docs/examples/orders_by_minute.py DATA_DIRECTORY CHART.svg
"""

import sys
from pathlib import Path

from gantry_spark.session import session

QUERY = """
    SELECT date_format(storeTimestamp, 'HH:mm') AS minute, count(*) AS messages, sum(bodySize) AS bytes
    FROM log WHERE topic = 'orders' GROUP BY minute ORDER BY minute
"""

data, chart = sys.argv[1:3]
spark = session("orders by minute")
columns = "topic,storeTimestamp,bodySize"
spark.read.format("gantry").option("path", data).option("columns", columns).load().createOrReplaceTempView(
    "log"
)
rows = spark.sql(QUERY).collect()
spark.stop()

most = max((row["messages"] for row in rows), default=1)
bars = "".join(
    f'<rect x="60" y="{24 * n}" width="{400 * row["messages"] / most:.0f}" height="20" fill="#3b7dd8"/>'
    f'<text x="0" y="{24 * n + 15}">{row["minute"]}</text><text x="70" y="{24 * n + 15}">{row["messages"]}</text>'
    for n, row in enumerate(rows)
)
frame = f'xmlns="http://www.w3.org/2000/svg" width="480" height="{24 * len(rows)}" font-family="sans-serif" font-size="14"'
Path(chart).write_text(f"<svg {frame}>{bars}</svg>\n", encoding="utf-8")
print(f"{sum(row['messages'] for row in rows)} orders in {len(rows)} minutes: {chart}")
