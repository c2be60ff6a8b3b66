"""With the extra ``docs``: what builds the site."""

import myst_nb
import pydata_sphinx_theme
import sphinx
import vl_convert

assert myst_nb.__version__ and pydata_sphinx_theme.__version__ and sphinx.__version__
assert vl_convert.vegalite_to_svg
