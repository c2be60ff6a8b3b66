"""Buttons and sliders, on ipywidgets alone."""
