"""The functions that an exercise asks for, and the notebook of one: both are made from its exercise.py."""

import ast
import inspect
import json
import re
import textwrap

LANGUAGE = {"display_name": "Python 3", "language": "python", "name": "python3"}


def functions(text):
    """By name, what each is to do: its docstring."""
    return {node.name: inspect.cleandoc(ast.get_docstring(node) or "") for node in definitions(text)}


def solutions(text):
    """By name, the lines of each function, as a reader writes them into the page's box."""
    lines = text.splitlines()
    return {node.name: textwrap.dedent("\n".join(lines[node.body[0].lineno - 1 - comments_before(lines, node.body[0]) : node.end_lineno])) for node in definitions(text)}


def comments_before(lines, node):
    """How many lines of comments stand directly before a statement."""
    count = 0
    while lines[node.lineno - 2 - count].lstrip().startswith("#"):
        count += 1
    return count


def unwrapped(text):
    """A docstring with a line for each paragraph; what is indented stays as it is."""
    return re.sub(r"(?<=\S)\n(?=\S)", " ", text)


def definitions(text):
    return [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]


def notebook(lesson, page, exercise, parts):
    """The text of lessons/NN_topic/exercise.ipynb.

    lesson    "06_multi_head"
    page      the lesson's page, of docs/pages: its title, and what one can do after it
    exercise  exercise.py
    parts     numpy_parts.py, which some exercises are given
    """
    title = re.match(r"# (.*?) <a ", page)[1]
    can = re.search(r"^After this lesson .*?(?=\n\n)", page, re.DOTALL | re.MULTILINE)[0]
    task = ast.get_docstring(ast.parse(exercise)).split("\n")[0].rstrip(".")
    names = ", ".join(functions(exercise))
    cells = [
        markdown(f"# {task}\n\n[{title}](../../docs/pages/{lesson}.md): {can[0].lower()}{can[1:]}\n\nWrite the functions, and run the last cell: it says what is right, and names "
                 "well-known mistakes. It needs the package attn: `pip install` in the checkout."),
        *([code("# What this exercise is given.\n" + parts_used(parts))] if "numpy_parts" in exercise else []),
        code("import attn\nimport numpy as np"),
        *(code("\n".join(exercise.splitlines()[node.lineno - 1 : node.end_lineno])) for node in definitions(exercise)),
        code(f'attn.exercise("{lesson}", {names})'),
        markdown('`hint="step"` says which step of a wrong function to look at, and `hint="line"` shows lines that are right:'),
        code(f'attn.exercise("{lesson}", {names}, hint="step")'),
    ]  # fmt: skip
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    content = {"cells": cells, "metadata": {"kernelspec": LANGUAGE, "language_info": {"name": "python"}}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def parts_used(parts):
    return parts[parts.index("import numpy") :].strip()


def markdown(text):
    return {"cell_type": "markdown", "metadata": {}, "source": text.splitlines(keepends=True)}


def code(text):
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": text.splitlines(keepends=True)}
