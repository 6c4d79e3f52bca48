"""Draws a report as one HTML file that needs nothing else: own SVG, own style, own small script, no address of anything. Knows no Spark."""
