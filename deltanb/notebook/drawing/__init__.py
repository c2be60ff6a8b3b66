"""Views drawn: as text, HTML, SVG and Vega-Lite."""
