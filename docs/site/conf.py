"""Sphinx's settings."""

from __future__ import annotations

from pathlib import Path

from deltanb._version import __version__
from docs.site.extension import setup as setup

project = "deltanb"
author = "the authors of deltanb"
copyright = f"{author}. Apache License 2.0"
version = release = __version__
language = "en"
smartquotes = False  # two hyphens are an option, and quotes are typed as they stand

extensions = ["sphinx.ext.autodoc", "myst_nb"]
root_doc = "index"
html_theme = "pydata_sphinx_theme"
html_title = f"deltanb {version}"
html_static_path = [str(Path(__file__).parent / "static")]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_last_updated_fmt = None
html_theme_options = {
    "logo": {"text": "deltanb"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
    "navigation_depth": 3,
    "show_nav_level": 1,
    "back_to_top_button": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"index": [], "search": []}

nb_execution_mode = "off"
nb_merge_streams = True
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4
suppress_warnings = ["misc.highlighting_failure"]  # magics and shell lines in cells of Python

autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
autodoc_class_signature = "mixed"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 90
toc_object_entries_show_parents = "hide"
