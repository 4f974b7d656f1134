from __future__ import annotations

import re

import mercer

project = "mercer"
author = "mercer developers"
copyright = "2026, mercer developers"
version = release = mercer.__version__

extensions = [
    "matplotlib.sphinxext.plot_directive",
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

# The gallery: examples/ is run when the pages are built.
plot_formats = [("png", 120)]
plot_html_show_formats = False
plot_html_show_source_link = False

html_theme = "pydata_sphinx_theme"
html_title = "mercer"
html_theme_options = {"show_toc_level": 2, "navigation_with_keys": False}

FORMULA = re.compile(r"(``.*?``|:math:`.*?`|`.*?`)")


def escape_bars(app, what, name, obj, options, lines):
    # Bars in docstrings are absolute values and norms, never substitutions. They are
    # left alone in literals, examples and formulas set by LaTeX.
    math_indent = None
    for i, line in enumerate(lines):
        indent = len(line) - len(line.lstrip())
        if math_indent is not None and line.strip() and indent <= math_indent:
            math_indent = None
        if line.lstrip().startswith(".. math::"):
            math_indent = indent
        if math_indent is None and not line.lstrip().startswith((">>>", "...")):
            parts = FORMULA.split(line)
            parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
            lines[i] = "".join(parts)


def skip_requests(app, what, name, obj, skip, options):
    # scikit-learn adds these to every estimator; its own pages explain them.
    return True if re.fullmatch(r"set_\w+_request|get_metadata_routing", name) else skip


def setup(app):
    app.connect("autodoc-process-docstring", escape_bars, priority=900)
    app.connect("autodoc-skip-member", skip_requests)
