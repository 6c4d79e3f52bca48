"""Renders a report as one self-contained HTML file: inline SVG, style and script, no external address. Independent of Spark."""
