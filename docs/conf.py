from __future__ import annotations

import mercer

project = "mercer"
author = "mercer developers"
copyright = "2026, mercer developers"
version = release = mercer.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
]
exclude_patterns = ["_build"]
templates_path = ["_templates"]

myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # numpydoc states the types
numpydoc_show_class_members = False  # the autosummary template lists them

html_theme = "pydata_sphinx_theme"
html_title = "mercer"
html_theme_options = {"show_toc_level": 2, "navigation_with_keys": False}
