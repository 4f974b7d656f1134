from __future__ import annotations

import inspect
import os
import re
from pathlib import Path

from docutils import nodes
from sphinx.util.inspect import stringify_signature

import mercer

HERE = Path(__file__).parent

project = "mercer"
author = "mercer developers"
copyright = "2026, mercer developers"
version = release = mercer.__version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx-mathjax-offline",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "_kernel", "gallery/*.ipynb"]
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["pages.css"]

# Pages: plain Markdown. Every ```python block is run when the page is built, and its output and
# figures are shown below it. A block that fails, or prints a warning, is an error.
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
nb_custom_formats = {
    ".md": (
        "myst_nb.core.read.read_myst_markdown_notebook",
        {"code_directive": "python", "add_source_map": True},
        False,
    )
}
nb_execution_mode = "force"  # Sphinx reads, and so runs, only pages that changed
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 120
nb_merge_streams = True
nb_output_stderr = "remove-warn"
os.environ["MATPLOTLIBRC"] = str(HERE)
os.environ["JUPYTER_PATH"] = str(HERE / "_kernel")

autosummary_generate = True
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"  # numpydoc states the types
python_maximum_signature_line_length = 80  # longer ones have a line for each parameter
numpydoc_show_class_members = False  # the autosummary template lists them

# The gallery: examples/ is run when the pages are built.
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",
    "within_subsection_order": "FileNameSortKey",
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("mercer",),
    "reference_url": {"mercer": None},
    "abort_on_example_error": True,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 60,
    "write_computation_times": False,
}

html_theme = "pydata_sphinx_theme"
html_title = "mercer"
html_theme_options = {
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "navbar_center": [],  # the sidebar lists all pages
}
html_sidebars = {"**": ["pages"]}

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


def skip_others(app, what, name, obj, skip, options):
    # Members that a class has from another library, such as scikit-learn's routing of metadata.
    function = getattr(obj, "fget", obj)
    module = getattr(function, "__module__", None) or getattr(
        getattr(obj, "__objclass__", None), "__module__", "mercer"
    )
    is_ours = module.split(".")[0] == "mercer" or name in ("score", "fit_transform", "fit_predict")
    return skip if is_ours else True


def plain_references(app, what, name, obj, options, lines):
    # Labels of scikit-learn's pages, in docstrings of its methods, lead nowhere here.
    if getattr(obj, "__module__", "").startswith("sklearn."):
        lines[:] = re.sub(r":ref:`([^`<]*?)\s*(?:<[^>]*>)?`", r"\1", "\n".join(lines)).split("\n")


def parameters_of_the_constructor(app, what, name, obj, options, signature, returns):
    # Sphinx prefers `__new__`, which names no parameters where it only checks their names.
    if what != "class" or not (signature or "").startswith("(*args"):
        return None
    return stringify_signature(inspect.signature(obj), show_annotation=False), None


def mark_tables(app, doctree):
    # Printed tables keep their columns on narrow screens; other output is wrapped.
    for block in doctree.findall(nodes.literal_block):
        rows = [line for line in block.astext().splitlines() if re.search(r"\S {2,}\S", line)]
        if "output" in block["classes"] and len(rows) > 1:
            block["classes"].append("printed-table")


def setup(app):
    app.connect("autodoc-process-signature", parameters_of_the_constructor)
    app.connect("doctree-read", mark_tables)
    app.connect("autodoc-process-docstring", escape_bars, priority=900)
    app.connect("autodoc-process-docstring", plain_references)
    app.connect("autodoc-skip-member", skip_others)
