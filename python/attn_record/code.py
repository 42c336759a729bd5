"""What a function's code says: loops, statements, which variables a line uses; and whose code it is."""

import ast
import collections
import contextlib
import dis
import functools
import inspect
import linecache
import os
import re
import sys
import sysconfig

from .kept import isinstance, len
from .tensors import TorchTensors, kind_of


class Line:
    """What one line of a function uses and can change: variables, ("x",), and attributes, ("self", "cache", "keys")."""

    def __init__(self):
        self.stores = {}  # what it assigns, and the loops around
        self.uses = {}  # a dict, for the order
        self.again = {}  # variables that it uses after it has assigned them
        self.attributes = None  # of objects that it uses, and whether it assigns one or its object; None: to be found
        self.path = self.copied = ()  # of what was loaded last, and of what was copied last
        self.loops = None  # around what can change a tensor in place; None where nothing can
        self.writes = False  # into a part of a tensor, a list or a dict
        self.fills = False  # these, or calls what does by its name

    def changes(self, path, value):
        """True where an attribute that it uses can be another one after it, or have other numbers."""
        return self.attributes[path] or self.fills or self.loops is not None and kind_of(value) is TorchTensors

    def assigns(self, path):
        return any(path[:length] in self.stores for length in range(1, len(path) + 1))


FILLING = {"append", "extend", "insert", "setdefault", "update", "at", "copyto", "fill", "partition", "place", "put", "putmask",
           "sort"}  # methods and functions of Python and NumPy


class Code:
    """What is known of one function: whose it is, and what its lines can change."""

    is_call_of_module = False

    def __init__(self, code, is_own):
        self.code = code  # kept, so that its id stays its own
        self.name = code.co_name
        self.qualified = getattr(code, "co_qualname", code.co_name)
        self.is_own = is_own
        self.is_comprehension = self.name in ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
        self.is_ignored = self.is_comprehension  # only a loop in the function around it
        self.is_generator = bool(code.co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR))
        self.arguments = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]
        self.has_self = self.arguments[:1] == ("self",)
        self.loops = loops_of(code) if is_own else []
        self.comprehensions = comprehensions_in(code, self.loops)
        self.lines = lines_of(code, self.loops_around) if is_own and not self.is_comprehension else {}
        self.statements = statements_of(code.co_filename) if self.lines else {}
        self.used = {}
        self.made = {}  # variables that it assigns, and the loops around, where these are most
        for path, loops in (pair for line in self.lines.values() for pair in line.stores.items()):
            self.made[path] = max(loops, self.made.get(path, ()), key=len)

    def loops_around(self, offset):
        """Outermost first. A loop begins with asking for the next item, which is not in it."""
        return tuple(loop for loop in self.loops if loop[0] < offset <= loop[1])

    def statement(self, number):
        """First and last line of the statement that a line is a part of."""
        return self.statements.get(number, (number, number))

    def used_in(self, first, last):
        """The variables and attributes that a statement uses."""
        if (first, last) not in self.used:
            self.used[first, last] = [path for line in range(first, last + 1) if line in self.lines
                                      for path in self.lines[line].uses]
        return self.used[first, last]

    def used_by_call(self, offset):
        """What stands in the call at an offset, its arguments; None where Python does not tell: before 3.11, and for what is no call."""
        if offset not in self.used:
            self.used[offset] = uses_of_call(self.code, offset) if hasattr(self.code, "co_positions") else None
        return self.used[offset]

    def is_in_comprehension(self, frame):
        return any(begin <= frame.f_lasti <= end for begin, end in self.comprehensions)

    def is_suspended(self, frame):
        """True where a generator waits to go on."""
        return self.is_generator and dis.opname[self.code.co_code[frame.f_lasti]] in WAITING


WAITING = ("YIELD_VALUE", "YIELD_FROM", "SEND", "RESUME")


def loops_of(code):
    """Where each loop begins and ends: what lies between a jump back and its target."""
    ends = {}
    for instruction in dis.get_instructions(code):
        is_jump = instruction.opcode in dis.hasjrel or instruction.opcode in dis.hasjabs
        if is_jump and instruction.argval <= instruction.offset and "NO_INTERRUPT" not in instruction.opname:
            ends[instruction.argval] = max(instruction.offset, ends.get(instruction.argval, 0))
    return sorted(ends.items(), key=lambda loop: (loop[0], -loop[1]))


def comprehensions_in(code, loops):
    """Where the comprehensions begin and end that are no functions of their own, as from Python 3.12 on: where their
    variable is put aside, and where it is put back."""
    found, instructions = [], list(dis.get_instructions(code)) if loops else []
    for begin in instructions:
        if begin.opname == "LOAD_FAST_AND_CLEAR":
            loop_end = min(loop for loop in loops if loop[0] > begin.offset)[1]
            ends = (one.offset for one in instructions if one.offset > loop_end and one.opname.startswith("STORE_FAST")
                    and begin.argval in variables(one))
            found.append((begin.offset, next(ends, loop_end)))
    return found


def lines_of(code, loops_around):
    starts = dict(dis.findlinestarts(code))
    lines, number = collections.defaultdict(Line), None
    for instruction in dis.get_instructions(code):
        number = starts.get(instruction.offset, number)
        if number is not None:
            note(instruction, lines[number], loops_around(instruction.offset))
            if inspect.iscode(instruction.argval):  # a comprehension or a lambda uses what stands in it
                lines[number].uses.update(dict.fromkeys(uses_in(instruction.argval), True))
    return dict(lines)


def uses_in(code):
    lines = lines_of(code, lambda offset: ())
    return [path for line in lines.values() for path in line.uses if path[0] not in code.co_varnames]


def uses_of_call(code, offset):
    instructions = list(dis.get_instructions(code))
    call = [one for one in instructions if one.offset <= offset][-1]  # it can be in what Python keeps beside an instruction
    if "CALL" not in call.opname or None in call.positions:
        return None
    line = Line()
    for one in instructions:
        if None not in one.positions and begin_of(call) <= begin_of(one) and end_of(one) <= end_of(call):
            note(one, line, ())
            if inspect.iscode(one.argval):
                line.uses.update(dict.fromkeys(uses_in(one.argval), True))
    return list(line.uses)


def begin_of(instruction):
    return instruction.positions.lineno, instruction.positions.col_offset


def end_of(instruction):
    return instruction.positions.end_lineno, instruction.positions.end_col_offset


@functools.lru_cache(maxsize=None)
def statements_of(file):
    """For each line its innermost statement's first and last line; of one with a body, those before the body."""
    ranges = {}
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return ranges
    for node in ast.walk(tree):  # outer ones first
        if isinstance(node, ast.stmt) and not isinstance(node, DEFINITIONS):
            body = getattr(node, "body", None)
            last = body[0].lineno - 1 if body else node.end_lineno
            ranges.update(dict.fromkeys(range(node.lineno, last + 1), (node.lineno, last)))
    return ranges


DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


VARIABLE = re.compile("(FAST|NAME|DEREF|GLOBAL)")


def note(instruction, line, loops):
    """Adds to a line what one instruction does."""
    name = instruction.opname
    if name == "STORE_ATTR" and line.path:
        line.stores[line.path + (instruction.argval,)] = loops
    elif name in ("LOAD_ATTR", "LOAD_METHOD"):
        line.fills = line.fills or instruction.argval in FILLING
        if line.path:
            line.path += (instruction.argval,)
            line.uses[line.path] = True
        return
    elif name in ("COPY", "DUP_TOP"):  # `self.x += y` copies self before it takes x
        line.copied = line.path
        return
    elif name in ("SWAP", "ROT_TWO"):  # and this puts it above the sum
        line.path = line.copied
        return
    elif name in ("STORE_SUBSCR", "STORE_SLICE") or "CALL" in name:
        line.loops = loops if line.loops is None else min(line.loops, loops, key=len)
        line.writes = line.writes or name.startswith("STORE_S")
        line.fills = line.fills or line.writes
    elif name in ("KW_NAMES", "LOAD_CONST") and isinstance(instruction.argval, tuple):  # names of arguments
        line.fills = line.fills or "out" in instruction.argval
    elif name.startswith(("STORE_", "LOAD_", "DELETE_")) and VARIABLE.search(name):
        parts = re.split("_(?=STORE_|LOAD_)", name)  # Python 3.13 has STORE_FAST_LOAD_FAST
        for part, variable in zip(parts * 2, variables(instruction)):
            if part.startswith("LOAD"):
                line.path = (variable,)
                (line.again if line.path in line.stores else line.uses)[line.path] = True
                continue
            line.stores[variable,] = loops
        return
    if name != "EXTENDED_ARG":
        line.path = ()


def variables(instruction):
    return instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)


class OwnCode:
    """Which files are the user's own: not Python's, not installed packages; or those of some folders."""

    LIBRARIES = ("numpy", "torch", "jax", "jaxlib", "tensorflow", "keras", "scipy", "attn", "attn_record")

    def __init__(self, folders):
        self.folders = [os.path.join(os.path.realpath(folder), "") for folder in folders or ()]
        here = os.path.dirname(__file__)
        self.known = {os.path.join(here, name): False for name in os.listdir(here)}  # before the program can change anything
        paths = sysconfig.get_paths()
        self.python = [os.path.join(os.path.realpath(paths[key]), "") for key in ("stdlib", "platstdlib")]

    def __call__(self, file):
        if file not in self.known:
            self.known[file] = self.decide(file)
        return self.known[file]

    def decide(self, file):
        if file.startswith("<"):  # what was typed in, not what a library made
            return file.startswith(("<stdin>", "<ipython-input")) and not self.folders
        path = os.path.realpath(file)
        if self.folders:
            return path.startswith(tuple(self.folders))
        is_installed = re.search(r"[/\\](site|dist)-packages[/\\]", path)
        return not is_installed and not path.startswith(tuple(self.python)) and not self.is_of_library(path)

    def is_of_library(self, path):
        files = [getattr(sys.modules.get(name), "__file__", None) for name in self.LIBRARIES]
        return path.startswith(tuple(os.path.join(os.path.dirname(os.path.realpath(file)), "") for file in files
                                     if file and os.path.basename(file).startswith("__init__")) or ("\0",))


@functools.lru_cache(maxsize=None)
def shown(file):
    """A file as people call it: from the current folder, where it is in it; a notebook's cell by its number."""
    if re.search(r"[/\\]ipykernel_\d+[/\\]", file):
        with contextlib.suppress(AttributeError, KeyError):
            return f"In [{sys.modules['IPython'].get_ipython().compile._filename_map[file]}]"
        return "a cell"
    path = os.path.relpath(file) if os.path.isabs(file) else file
    return file if path.startswith("..") else path
