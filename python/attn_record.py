#!/usr/bin/env python3
"""Records every tensor that your own code assigns to a variable, without editing the code.

    import attn_record
    with attn_record.to("mine.npz"):
        model(x)

    python3 -m attn_record mine.npz -- mine.py its arguments

mine.npz has one array for each, in order, and the member attn_record.json, which says for each the file, line, variable
and function that it comes from. `attn diff reference.npz mine.npz` then answers with these. docs/record.md has the rest.

Needs Python 3.9 and NumPy. Tensors of PyTorch, JAX and TensorFlow are recognised where the program imports these.
"""

import argparse
import ast
import collections
import contextlib
import dis
import fnmatch
import functools
import inspect
import itertools
import json
import linecache
import os
import re
import runpy
import shlex
import signal
import sys
import sysconfig
import tempfile
import threading
import traceback
import types
import weakref
import zipfile
import zlib

import numpy as np

__version__ = "0.1.0"
__all__ = ["to"]

MEGABYTE = 1 << 20
LARGEST = 64 * MEGABYTE  # of one array
MOST = 1024 * MEGABYTE  # of all arrays together
MOST_ARRAYS = 50_000
SAMPLE = 1 << 12  # numbers that a large array is recognised by
FORMAT = "attn record 1"
LONGEST_CONTAINER = 1000  # longer lists, tuples and dicts are not looked into
DEEPEST_CONTAINER = 6
PLAIN = {int, float, bool, str, type(None)}  # in these is no tensor, which is seen at once
LARGEST_WHOLE = 1 << 53  # above it not every whole number is a double, and attn refuses the file

# As they are now: the program that is recorded can put others in their place.
len, isinstance, open, print, to_json = len, isinstance, open, print, json.dumps


# ------------------------------------------------------------------------------------------------ tensors
#
# One class per library says whether its tensors changed, and gives their numbers.


class LeftOut(Exception):
    """A tensor that is not recorded. Its text says why."""


class NumpyTensors:
    @staticmethod
    def state(array):
        """Another value after the array was changed in place."""
        return checksum(array) if array.flags.writeable and array.dtype.kind in "biufc" else None

    @staticmethod
    def memory(array):
        """The same for two arrays that can share numbers."""
        while isinstance(array.base, np.ndarray):
            array = array.base
        return id(array)

    @staticmethod
    def numbers(array):
        return np.asarray(array), array.dtype.name


class TorchTensors:
    @staticmethod
    def state(tensor):
        try:
            return tensor._version
        except RuntimeError:  # made in inference mode, where PyTorch doesn't count
            return checksum(tensor.numpy()) if tensor.device.type == "cpu" else None

    @staticmethod
    def memory(tensor):
        storage = getattr(tensor, "untyped_storage", tensor.storage)  # the second warns where there is the first
        try:
            return storage().data_ptr()
        except Exception:  # a tensor without memory of its own
            return id(tensor)

    @staticmethod
    def numbers(tensor):
        torch = sys.modules["torch"]
        name = str(tensor.dtype).replace("torch.", "")
        if "Fake" in type(tensor).__name__ or tensor.device.type == "meta":
            raise LeftOut("abstract: it has a shape and no numbers")
        if tensor.device.type == "cuda" and torch.cuda.is_current_stream_capturing():
            raise LeftOut("made while a CUDA graph is captured")
        if tensor.layout is not torch.strided or tensor.is_quantized:
            raise LeftOut("sparse or quantised")
        if tensor.is_complex():
            raise LeftOut("complex")
        tensor = tensor.detach()
        if tensor.dtype is torch.bfloat16 or "float8" in name:
            tensor = tensor.float()
        tensor = tensor.resolve_neg() if hasattr(tensor, "resolve_neg") else tensor
        return tensor.cpu().numpy(), name


class JaxTensors:
    @staticmethod
    def state(_):
        return None  # they never change

    memory = staticmethod(id)

    @staticmethod
    def numbers(array):
        if isinstance(array, sys.modules["jax"].core.Tracer):
            raise LeftOut("abstract: inside jit, grad or vmap there are no numbers (try jax.disable_jit())")
        return np.asarray(array), str(array.dtype)


class TensorFlowTensors:
    @staticmethod
    def state(_):
        return None

    memory = staticmethod(id)

    @staticmethod
    def numbers(tensor):
        if not hasattr(tensor, "numpy"):
            raise LeftOut("abstract: inside tf.function there are no numbers (try tf.config.run_functions_eagerly(True))")
        return tensor.numpy(), tensor.dtype.name


LIBRARIES = [("torch", "Tensor", TorchTensors), ("jax", "Array", JaxTensors), ("tensorflow", "Tensor", TensorFlowTensors)]
_kinds = {}  # by type; a type without is no tensor


def kind_of(value):
    """What reads a value that is a tensor; None for another one."""
    kind = _kinds.get(type(value), _kinds)
    if kind is _kinds:
        kind = NumpyTensors if isinstance(value, np.ndarray) else None
        for module, name, reader in LIBRARIES:
            tensor = getattr(sys.modules.get(module), name, None)
            if isinstance(tensor, type) and isinstance(value, tensor) and not is_weight(value):
                kind = reader
        _kinds[type(value)] = kind
    return kind


def is_weight(value):
    """True for a weight of a PyTorch module, which its state_dict has."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Parameter)


def checksum(array, in_full=False):
    """Of all numbers, or of a sample where these are many."""
    if array.nbytes > MEGABYTE and not in_full:
        numbers = array.reshape(-1) if array.flags.c_contiguous else array.flat
        array = numbers[::array.size // SAMPLE | 1]
    return zlib.adler32(memoryview(np.ascontiguousarray(array)).cast("B")) if array.size else 0


def full_states(seen):
    """Of those arrays in a variable that are otherwise recognised by a sample."""
    return {path: checksum(leaf, in_full=True) for path, (leaf, _) in seen.leaves.items()
            if kind_of(leaf) is NumpyTensors and leaf.nbytes > MEGABYTE}


def storable(array):
    """The array as attn reads it. Whole numbers and booleans keep their type."""
    if array.dtype.kind == "V" and array.dtype.fields is None or array.dtype.name.startswith(("bfloat16", "float8")):
        try:
            array = array.astype(np.float32)  # ml_dtypes' bfloat16 and float8, which float32 holds exactly
        except (TypeError, ValueError):
            pass
    if array.dtype.kind == "c":
        raise LeftOut("complex")
    if array.dtype.kind not in "biuf":
        raise LeftOut("of the type " + array.dtype.name)
    if array.dtype.itemsize > 8:
        array = array.astype(np.float64)
    if array.dtype.kind in "iu" and array.dtype.itemsize == 8 and array.size:
        if max(abs(int(array.min())), abs(int(array.max()))) > LARGEST_WHOLE:
            raise LeftOut("whole numbers above 2^53")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def leaves_of(value, depth=0):
    """The tensors in a value, and where they are in it: "" or ".0" or ".keys.1"."""
    if kind_of(value) is not None:
        yield "", value
    elif isinstance(value, (list, tuple, dict)) and depth < DEEPEST_CONTAINER and length_of(value) <= LONGEST_CONTAINER:
        parts = list(keys_and_parts(value))
        if PLAIN.issuperset(type(part) for _, part in parts):
            return
        for key, part in parts:
            for path, leaf in leaves_of(part, depth + 1):
                yield f".{word(str(key))}{path}", leaf


def python_class(container):
    """Whose methods are called: those of a class that is derived from it can do anything."""
    return next(kind for kind in (dict, list, tuple) if isinstance(container, kind))


def length_of(container):
    return python_class(container).__len__(container)


def keys_and_parts(container):
    if isinstance(container, dict):
        return dict.items(container)
    return zip(getattr(container, "_fields", None) or itertools.count(), python_class(container).__iter__(container))


def word(text):
    """Letters, digits, _ and dots: what a name in a trace is made of."""
    return re.sub(r"[^A-Za-z0-9_.]+", "_", text.strip("<>")).strip(".") or "_"


# ------------------------------------------------------------------------------------------------ code


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
        self.known = {}
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
        if path == os.path.realpath(__file__):
            return False
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


# ------------------------------------------------------------------------------------------------ the file


class Names:
    """Numbers what has one name: att, att#2, att#3; and in a loop x.0, x.1, or x#2.0, x#2.1 where x has been before."""

    def __init__(self):
        self.counts = {}
        self.sites = {}
        self.taken = set()

    def again(self, name):
        count = self.counts[name] = self.counts.get(name, 0) + 1
        return name if count == 1 else f"{name}#{count}"

    def numbered(self, name, loop_site=None):
        """loop_site: where it is, if that is in a loop."""
        if loop_site is None:
            return self.again(name)
        first, runs = self.sites.get((name, loop_site)) or (self.again(name), 0)
        self.sites[name, loop_site] = first, runs + 1
        return f"{first}.{runs}"

    def unique(self, name):
        plain = re.sub(r"#\d+$", "", name)
        while name in self.taken:
            name = self.again(plain)
        self.taken.add(name)
        return name


class New:
    """A file that is written beside its place, without a name where the system can do that, and put there when it is complete."""

    def __init__(self, path):
        self.path = os.path.abspath(path)  # the program can go to another folder
        folder, name = os.path.split(self.path)
        self.prefix = os.path.join(folder, "." + name + ".")
        self.name = None
        try:
            handle = os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600)
        except (AttributeError, OSError):  # another system, or a file system that can't; or no folder, which the next line says
            handle, self.name = tempfile.mkstemp(prefix=os.path.basename(self.prefix), suffix=".tmp", dir=folder)
        self.out = os.fdopen(handle, "w+b", buffering=0)  # a process that is forked has nothing left to write

    def put_in_place(self):
        mask = os.umask(0)
        os.umask(mask)
        os.fchmod(self.out.fileno(), 0o666 & ~mask)
        if self.name is None:
            name = f"{self.prefix}{os.getpid()}.tmp"
            handle = self.out.fileno()
            os.link(f"/proc/self/fd/{handle}", name, src_dir_fd=handle, follow_symlinks=True)  # with src_dir_fd it follows
            self.name = name
        self.out.close()
        os.replace(self.name, self.path)
        self.name = None

    def drop(self):
        """Leaves nothing behind."""
        with contextlib.suppress(OSError):
            self.out.close()
        if self.name is not None:
            with contextlib.suppress(OSError):
                os.unlink(self.name)


class File:
    """The .npz file."""

    def __init__(self, path, largest, most, only):
        self.path, self.largest, self.most, self.only = path, largest, most, only
        self.trouble = None  # why it can't be written
        self.arrays, self.repeats, self.left_out = [], [], []
        self.names = Names()
        self.stored = {}  # by id of a tensor: a weak reference, its state, its name
        self.sources = {}  # by id of a tensor: a weak reference, the names of arrays that say what it is
        self.calls = []
        self.bytes = 0
        self.lock = threading.RLock()
        self.new = New(path)
        self.zip = zipfile.ZipFile(self.new.out, "w", zipfile.ZIP_STORED, allowZip64=True)

    def wants(self, name, variable):
        return not self.only or any(fnmatch.fnmatchcase(name, pattern) or variable == pattern for pattern in self.only)

    def name_of(self, tensor, state):
        """The name under which the same tensor was stored, where it has not changed since."""
        reference, then, name = self.stored.get(id(tensor), (None, None, None))
        return name if reference is not None and reference() is tensor and then == state else None

    def note_given(self, leaves):
        """Tensors in a list or dict that a function got, such as all weights: they are not stored for being there."""
        for tensor, state in leaves.values():
            if self.name_of(tensor, state) is None:
                self.remember(tensor, state, "")

    def list_again(self, name, known, origin):
        """Notes that a tensor that is stored has another name, too."""
        if known not in ("", name) and self.wants(name, origin["variable"]):
            self.repeats.append({"name": name, "same_as": known, **origin})

    def add(self, name, tensor, state, origin, reads):
        """Stores a tensor, or notes why not. reads: the arrays that it was computed from."""
        with self.lock:
            if self.zip is None:
                return
            name = self.names.unique(name)
            origin = {**origin, "reads": list(reads)}
            is_stored = self.wants(name, origin["variable"]) and self.store(name, tensor, state, origin)
            keep(self.sources, tensor, [name] if is_stored else origin["reads"])

    def sources_of(self, tensor):
        """The recorded array that a tensor is; where it is not recorded, those that it was computed from; None where it is
        not known."""
        reference, names = self.sources.get(id(tensor), (None, None))
        return names if reference is not None and reference() is tensor else None

    def store(self, name, tensor, state, origin):
        """@return whether it is stored"""
        try:
            array, dtype = self.checked(tensor)
            try:
                self.write(name, array)
            except OSError as error:  # a full disk, for example, which is not kept full
                self.give_up(error)
                return False
        except LeftOut as reason:
            self.leave_out(name, origin, str(reason))
        except Exception as error:  # the program that is recorded goes on
            self.leave_out(name, origin, f"cannot be read: {type(error).__name__}: {error}".splitlines()[0])
        else:
            entry = {"name": name, **origin, "shape": list(array.shape), "dtype": dtype}
            known = self.name_of(tensor, state)
            self.arrays.append({**entry, "reads": [known], "same_as": known} if known else entry)
            if not known:
                self.remember(tensor, state, name)
            return True
        return False

    def checked(self, tensor):
        array, dtype = kind_of(tensor).numbers(tensor)
        array = storable(array)
        if array.nbytes > self.largest:
            raise LeftOut(f"larger than {in_megabytes(self.largest)} (--largest)")
        if self.bytes + array.nbytes > self.most:
            raise LeftOut(f"with it the file would be larger than {in_megabytes(self.most)} (--most)")
        if len(self.arrays) >= MOST_ARRAYS:
            raise LeftOut(f"there are {MOST_ARRAYS} arrays already")
        return array, dtype

    def write(self, name, array):
        """All of it or nothing, also where Ctrl-C comes in between."""
        member, begin = zipfile.ZipInfo(name + ".npy"), self.zip.start_dir
        try:
            with self.zip.open(member, "w", force_zip64=array.nbytes >= 1 << 30) as file:
                np.lib.format.write_array(file, array, allow_pickle=False)
        except BaseException:
            self.zip.filelist[:] = [kept for kept in self.zip.filelist if kept is not member]
            self.zip.NameToInfo.pop(member.filename, None)
            self.zip.start_dir = begin
            raise
        self.bytes += array.nbytes

    def remember(self, tensor, state, name):
        keep(self.stored, tensor, state, name)

    def leave_out(self, name, origin, reason):
        self.left_out.append({"name": name, **origin, "reason": reason})

    def call(self, running):
        """Lists where a function was called, once. @return its place in the list"""
        parent = running.parent
        self.calls.append({"file": parent.file, "line": parent.line, "function": parent.qualified(), **parent.called()})
        return len(self.calls) - 1

    def close(self):
        listing = {"format": FORMAT, "arrays": self.arrays, "calls": self.calls, "same": self.repeats,
                   "left_out": self.left_out}
        with self.lock:
            if self.zip is None:
                return
            try:
                self.zip.writestr(zipfile.ZipInfo("attn_record.json"), to_json(listing))
                self.zip.close()
                self.zip = None
                self.new.put_in_place()
            except Exception as error:  # the program that was recorded ends as it would
                self.give_up(error)

    def give_up(self, error):
        """Writes nothing any more. The file that was there stays."""
        self.trouble = f"{type(error).__name__}: {error}".splitlines()[0]
        self.forget()
        self.new.drop()

    def forget(self):
        """After a fork: the file is the parent's."""
        if self.zip is not None:
            self.zip.fp = self.zip = None

    def summary(self):
        """Lines for people: how much there is, and what there is not."""
        if self.trouble:
            yield f"{self.path}: cannot be written, and nothing is kept of it: {self.trouble}"
            return
        files = sorted({entry["file"] for entry in self.arrays})
        of = files[0] if len(files) == 1 else f"{len(files)} files"
        yield f"{self.path}: {len(self.arrays)} arrays of {of}, {self.bytes / MEGABYTE:.3f} MiB"
        reasons = collections.defaultdict(list)
        for entry in self.left_out:
            reasons[entry["reason"]].append(entry["name"])
        for reason, names in reasons.items():
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            yield f"{self.path}: left out {', '.join(names[:3])}{more}: {reason}"


def keep(known, tensor, *facts):
    try:
        known[id(tensor)] = weakref.ref(tensor), *facts
    except TypeError:
        pass


def in_megabytes(size):
    return f"{size / MEGABYTE:g} MiB"


# ------------------------------------------------------------------------------------------------ a running function


class Seen:
    """What a variable held when it was last looked at."""

    def __init__(self, value, loops):
        self.value, self.loops = value, loops
        self.leaves = states_of(value)

    def tensors(self):
        return [leaf for leaf, _ in self.leaves.values()]

    def shares(self, memories):
        """True where one of its tensors can be in one of these memories."""
        return any(kind_of(leaf).memory(leaf) in memories for leaf in self.tensors())


def states_of(value):
    return {path: (leaf, kind_of(leaf).state(leaf)) for path, leaf in leaves_of(value)}


def can_hold_tensors(value):
    return kind_of(value) is not None or isinstance(value, (list, tuple, dict))


class Running:
    """One call of a function of the user's own, or of a module's forward: its variables, and how they are called."""

    def __init__(self, recorder, frame, code, parent, site):
        self.recorder, self.code, self.parent, self.site = recorder, code, parent, site
        self.file = shown(frame.f_code.co_filename)
        self.line = frame.f_lineno
        self.module = frame.f_globals.get("__name__", "__main__").replace("__main__", "")
        self.depth = parent.depth + 1 if parent else 0
        self.object = frame.f_locals.get("self") if code.has_self else None
        self.is_module = code.name != "__init__" and recorder.modules.is_one(self.object)
        self.is_super = parent is not None and self.object is not None and parent.object is self.object
        self.is_forward = self.is_module and code.name == "forward" and not self.is_super
        self.place = None
        self.has_parts = False  # modules that it called
        self.seen, self.pending, self.before = {}, {}, {}  # by path: ("x",) or ("self", "cache", "keys")
        self.unseen = []  # lines of a comprehension that runs
        self.reads = {}  # arrays that the statement uses, as they were before it; a dict, for the order; None: to be found
        self.frame = None  # while a line is looked at
        self.returned = {}  # arrays that calls in the statement returned
        self.call = None  # its place in the file's list of calls

    # -------------------------------------------------------------------------------------- names

    @property
    def scope(self):
        """What its variables' names begin with."""
        return self.placed()[0]

    @property
    def inside(self):
        """What the names of its object's parts begin with."""
        return self.placed()[1]

    def placed(self):
        if self.place is None:
            self.place = self.find_place()
        return self.place

    def find_place(self):
        names, outer = self.recorder.file.names, self.parent.scope if self.parent else ""
        if self.code.name == "<module>":
            return self.module, self.module
        if self.object is None or self.code.name == "__init__":
            name = word(self.code.name if self.object is None else type(self.object).__name__ + ".__init__")
            scope = names.numbered(joined(outer, name), self.site)
            return scope, scope
        inside, own_name = self.place_of_object(outer)
        is_call = not self.is_super and self.code.name in ("forward", "__call__", "call")
        loop_site = None if self.is_numbered(inside) else self.site
        if not is_call:
            return names.numbered(joined(inside, self.code.name), loop_site), inside
        if own_name:
            return own_name, inside
        scope = names.numbered(inside, loop_site)
        return scope, scope

    def is_numbered(self, inside):
        """True where the object's own name tells it from others: layers.0."""
        outer = self.parent.inside if self.parent else ""
        return any(part.isdigit() for part in inside[len(outer):].split("."))

    def place_of_object(self, outer):
        """What the names of the object's parts begin with; and what its own name is, where that is not the same."""
        if self.is_super:
            return self.parent.inside, None
        if self.is_module:
            return self.recorder.modules.place(self)
        holder = self.holder(lambda running: running.object is not None)
        path = path_to(holder.object, self.object) if holder else None
        return (joined(holder.inside, path) if path else joined(outer, type(self.object).__name__)), None

    def holder(self, condition):
        """The innermost call around it that fulfils a condition."""
        running = self.parent
        while running is not None and not condition(running):
            running = running.parent
        return running

    def origin(self, variable, line=None):
        if not self.code.is_own and self.parent is not None:
            return {**self.parent.origin(variable), "function": self.qualified()}
        return {"file": self.file, "line": line or self.line, "variable": variable, "function": self.qualified(),
                **self.called()}

    def called(self):
        """Where it was called, in the file's list of calls."""
        if self.parent is None:
            return {}
        if self.call is None:
            self.call = self.recorder.file.call(self)
        return {"call": self.call}

    # -------------------------------------------------------------------------------------- what was computed from what

    def used_by_statement(self, frame):
        """The arrays that the statement uses, as far as it has been followed: more than the assigned one was computed from
        where a line has several statements, and what a followed call was given beside what it returned."""
        if not self.code.is_own:
            return {**self.reads, **self.returned}
        tensors, values = [], frame.f_locals
        for path in self.code.used_in(*self.code.statement(self.line)):
            seen = self.seen.get(path)  # before the statement
            value = seen.value if seen else value_at(path, values, frame.f_globals)
            if len(path) > 1 and kind_of(value) is TorchTensors:
                self.record_buffer(path, value, frame)
            tensors += seen.tensors() if seen else (leaf for _, leaf in leaves_of(value))
        return {**self.sources_of(tensors), **self.returned}

    def find_reads(self):
        """Before what the line has changed is noted."""
        if self.reads is None:
            self.reads = self.used_by_statement(self.frame)

    def sources_of(self, tensors):
        return {name: None for tensor in tensors for name in self.recorder.file.sources_of(tensor) or ()}

    def qualified(self):
        if self.object is not None and "." not in self.code.qualified:
            return f"{type(self.object).__name__}.{self.code.name}"
        return self.code.qualified.replace("<locals>.", "")

    # -------------------------------------------------------------------------------------- what happens

    def begin(self, frame, caller):
        """Notes the arguments; those that nobody has assigned to a variable are recorded."""
        values = frame.f_locals
        self.reads = self.parent.used_by_statement(caller) if self.parent else {}
        if self.is_forward and self.recorder.reference is not None:
            self.recorder.reference.offer(self, values)
        for name in self.code.arguments:
            if name in values and not (name == "self" and self.code.has_self):
                self.seen[name,] = seen = Seen(values[name], ())
                if kind_of(values[name]) is not None:
                    full = self.recorder.file.names.again(joined(self.scope, name))
                    self.record_unless_known(full, name, seen.leaves)
                else:
                    self.recorder.file.note_given(seen.leaves)
        if not self.code.is_own:
            self.reads = self.sources_of(tensor for seen in self.seen.values() for tensor in seen.tensors())

    def trace(self, frame, event, arg):
        """Hears of each line before it runs, and of the end."""
        if self.recorder.is_paused:
            return self.trace
        try:
            if event == "line" and self.code.is_in_comprehension(frame):
                self.unseen.append(frame.f_lineno)
            elif event == "line":
                self.look(frame)
                if self.code.statement(self.line) != self.code.statement(frame.f_lineno):
                    self.returned.clear()
                self.line = frame.f_lineno
                self.look_ahead(frame)
            elif event == "return":
                self.end(frame, arg)
        except Exception as error:  # the program that is recorded goes on
            self.recorder.trouble(error)
        return self.trace

    def end(self, frame, result):
        self.look(frame)
        if self.code.is_suspended(frame):
            return
        self.settle()
        self.recorder.running.pop(id(frame), None)
        leaves = states_of(result)
        self.reads = self.used_by_statement(frame)
        if self.is_forward:
            self.record_output(leaves)
            self.note_if_fused()
        elif leaves and self.code.name != "<module>":
            self.record_unless_known(joined(self.scope, "return"), "return", leaves)
        if self.parent is not None:
            self.parent.returned.update(self.sources_of(leaf for leaf, _ in leaves.values()))

    def look(self, frame):
        """Records what the line that just ran has changed, and those of a comprehension before it."""
        self.look_at_line(frame)
        for self.line in sorted(set(self.unseen)):
            self.look_at_line(frame)
        self.unseen.clear()
        if self.pending:
            self.settle(frame.f_lasti)

    def look_at_line(self, frame):
        line = self.code.lines.get(self.line)
        if line is None or not line.stores and line.loops is None:
            return
        values, self.reads, self.frame = frame.f_locals, None, frame
        for path, loops in line.stores.items():
            value = values.get(path[0]) if len(path) == 1 else value_at(path, values, frame.f_globals)
            self.assigned(path, value, loops)
            if line.again and path in line.again and path in self.seen:
                self.find_reads()
                self.reads = {**self.reads, **self.sources_of(self.seen[path].tensors())}
        if line.loops is not None:
            for path in line.uses:
                if path in self.seen and path not in line.stores:
                    self.used(path, line)
        self.frame = None

    def look_ahead(self, frame):
        """Before a line runs: what attributes are, which other functions change, too; before it writes into arrays: large
        ones are compared in full."""
        line = self.code.lines.get(self.line)
        if line is None or line.attributes == {} and not line.writes:
            return
        values = frame.f_locals
        if line.attributes is None:
            roots = {path: value_at(path[:1], values, frame.f_globals) for path in line.uses if len(path) > 1}
            line.attributes = {path: line.assigns(path) for path, root in roots.items()
                               if not isinstance(root, types.ModuleType)}
        for path in line.attributes:
            self.look_at_attribute(path, value_at(path, values, frame.f_globals), line, frame)
        for path in line.uses if line.writes else ():
            if path in self.seen and path not in self.before and path not in self.pending:
                self.before[path] = full_states(self.seen[path])

    def look_at_attribute(self, path, value, line, frame):
        seen = self.seen.get(path)
        if seen is not None and seen.value is not value:
            if path in self.pending:
                self.settle_one(path)
            del self.seen[path]
            seen = None
        if seen is None and can_hold_tensors(value) and line.changes(path, value):
            if kind_of(value) is TorchTensors:
                self.record_buffer(path, value, frame)
            self.seen[path] = Seen(value, self.code.made.get(path[:1], ()))

    def assigned(self, path, value, loops):
        if not can_hold_tensors(value):
            for known in (self.seen, self.pending, self.before):
                known.pop(path, None)
            return
        for seen in (self.seen.get(path), self.seen.get(namesake(path))):
            if seen is not None and seen.value is value:
                self.seen[path] = seen
                self.changed(path, self.line, loops)
                return
        self.pending.pop(path, None)
        self.before.pop(path, None)
        seen = Seen(value, loops)
        if seen.leaves:
            self.find_reads()
        self.seen[path] = seen
        if seen.leaves:
            self.record(name_of(path), seen.leaves, loops, ".".join(path), self.line)

    def used(self, path, line):
        """An array that exists since before a loop, and can be filled in it, is looked at when the loop is over."""
        further = [loop for loop in line.loops if loop not in self.seen[path].loops]
        if further:
            self.find_reads()
            self.pending.setdefault(path, (further[0], self.line, {}))[2].update(self.reads)
        else:
            self.changed(path, self.line, line.loops)

    def settle(self, offset=None):
        """Looks at what was waiting for a loop that is left. offset: of what runs next, if anything does."""
        for path, (loop, _, _) in list(self.pending.items()):
            if offset is None or not loop[0] <= offset <= loop[1]:
                self.settle_one(path)

    def settle_one(self, path):
        _, line, self.reads = self.pending.pop(path)
        self.changed(path, line, self.seen[path].loops)

    def changed(self, path, line, loops):
        """Records what changed in place since a value was last looked at, and what shares its memory."""
        seen, before = self.seen[path], self.before.pop(path, {})
        leaves = states_of(seen.value)
        different = {part: leaf for part, leaf in leaves.items() if is_other(leaf, seen.leaves.get(part))}
        for part, then in before.items():
            if part in leaves and part not in different and then != checksum(leaves[part][0], in_full=True):
                self.recorder.file.stored.pop(id(leaves[part][0]), None)  # its state, of a sample, is the same
                different[part] = leaves[part]
        if different:
            self.find_reads()
        seen.leaves = leaves
        for part, leaf in different.items():
            self.record_change(path, part, leaf, loops, line)
        memories = {kind_of(tensor).memory(tensor) for tensor, _ in different.values()}
        for other in [other for other, it in self.seen.items() if memories and other != path and it.shares(memories)]:
            self.changed(other, line, loops)

    # -------------------------------------------------------------------------------------- recording

    def record(self, name, leaves, loops, variable, line):
        """Stores the tensors of one variable."""
        file, full, plain = self.recorder.file, None, joined(self.scope, name)
        for path, (tensor, state) in leaves.items():
            known = file.name_of(tensor, state)
            if known == plain + path or known == "" and path:
                continue
            if full is None:
                full = file.names.numbered(plain, (id(self.code), line) if loops else None)
            if known and path:
                file.list_again(full + path, known, self.origin(variable, line))
            else:
                file.add(full + path, tensor, state, self.origin(variable, line), self.reads)

    def record_change(self, path, part, leaf, loops, line):
        """Stores what is new in a variable, an attribute, a list or a dict; what is known is listed."""
        file, name = self.recorder.file, self.name_in_function(path) + part
        known = file.name_of(*leaf)
        if not known or len(path) == 1 and not part:
            self.record(name, {"": leaf}, loops, ".".join(path), line)
        elif part:
            name = file.names.numbered(joined(self.scope, name), (id(self.code), line) if loops else None)
            file.list_again(name, known, self.origin(".".join(path), line))

    def record_buffer(self, path, value, frame):
        """A buffer of a PyTorch module that nobody assigned to a variable is stored where a statement uses it."""
        file, holder = self.recorder.file, value_at(path[:-1], frame.f_locals, frame.f_globals)
        state, is_known = TorchTensors.state(value), file.sources_of(value) is not None
        if not is_known and file.name_of(value, state) is None and path[-1] in (attribute_of(holder, "_buffers") or ()):
            name = file.names.again(joined(self.scope, self.name_in_function(path)))
            file.add(name, value, state, self.origin(".".join(path)), ())

    def name_in_function(self, path):
        """Of an attribute, where its function can have a variable of the same name."""
        name, code = name_of(path), self.code.code
        return name if len(path) == 1 or name not in (*code.co_varnames, *code.co_cellvars) else ".".join(path)

    def record_unless_known(self, name, variable, leaves):
        """Stores the tensors that are not stored under another name."""
        file = self.recorder.file
        for path, (tensor, state) in leaves.items():
            known = file.name_of(tensor, state)
            if known is None:
                file.add(name + path, tensor, state, self.origin(variable), self.reads)
            else:
                file.list_again(name + path, known, self.origin(variable))

    def record_output(self, leaves):
        """A module's result has the module's name; the further tensors of several are numbered."""
        averages = self.seen.get(("average_attn_weights",))
        for path, (tensor, state) in leaves.items():
            name = self.scope + ("" if path == ".0" else path)
            if type(self.object).__name__ == "MultiheadAttention" and path == ".1" and averages is not None:
                name = self.scope + (".attn_output_weights" if averages.value is False else ".1")
            self.recorder.file.add(name, tensor, state, self.origin("return"), self.reads)


    def note_if_fused(self):
        """PyTorch computes a whole layer at once where nothing is to be trained."""
        if type(self.object).__name__ == "TransformerEncoderLayer" and not self.has_parts:
            self.recorder.file.leave_out(self.scope + ".*", self.origin("forward"), FUSED)


FUSED = "PyTorch computed the layer at once; call train() on a model with dropout 0, then it does so step by step"


def joined(scope, name):
    return f"{scope}.{name}" if scope and name else scope or name


def is_other(leaf, before):
    return before is None or leaf[0] is not before[0] or leaf[1] != before[1]


def name_of(path):
    """Of an attribute, as names in the file have it: ("self", "cache", "keys") is cache.keys."""
    return ".".join(path[1:] if path[0] == "self" and len(path) > 1 else path)


def namesake(path):
    """x for self.x and the other way round."""
    return path[1:] if path[0] == "self" and len(path) > 1 else ("self", *path)


def value_at(path, variables, others):
    value = variables.get(path[0], others.get(path[0]))
    for attribute in path[1:]:
        value = attribute_of(value, attribute)
    return value


def attribute_of(thing, name):
    """An attribute that is stored in an object: nothing is computed for it."""
    held = getattr(thing, "__dict__", {})
    if name in held:
        return held[name]
    if Modules.is_one(thing):
        return held.get("_buffers", {}).get(name, held.get("_modules", {}).get(name))
    return getattr(thing, name, None) if is_slot(type(thing), name) else None


@functools.lru_cache(maxsize=None)
def is_slot(kind, name):
    held = next((base.__dict__[name] for base in kind.__mro__ if name in base.__dict__), None)
    return isinstance(held, types.MemberDescriptorType)


def path_to(holder, thing):
    """Where an object is among the attributes of another one: "layers.0"; None where it is not."""
    for name, value in getattr(holder, "__dict__", {}).items():
        if value is thing:
            return name
        if isinstance(value, (list, tuple, dict)) and length_of(value) <= LONGEST_CONTAINER:
            for key, part in keys_and_parts(value):
                if part is thing:
                    return f"{name}.{word(str(key))}"
    return None


# ------------------------------------------------------------------------------------------------ PyTorch's modules


class Modules:
    """The paths of PyTorch's modules, from the outermost that was called."""

    def __init__(self, names):
        self.names = names
        self.paths = {}  # by id of a module: the module, its outermost one, its path in that
        self.calls = {}  # by id of an outermost module

    @staticmethod
    def is_one(thing):
        torch = sys.modules.get("torch")
        return thing is not None and torch is not None and isinstance(thing, getattr(torch.nn, "Module", ()))

    def place(self, running):
        """What the names of a module's parts begin with; and what its own name is, where that is not the same."""
        module = running.object
        if id(module) not in self.paths:
            for name, part in module.named_modules():
                self.paths.setdefault(id(part), (part, module, name))
        _, root, path = self.paths[id(module)]
        around = running.holder(lambda other: self.is_part(other, root, path))
        if around is not None and module is not root:
            begin = self.paths[id(around.object)][2]
            return joined(around.inside, path[len(begin):].lstrip(".")), None
        return self.place_of_outermost(running, root, path)

    def is_part(self, other, root, path):
        _, its_root, its_path = self.paths.get(id(other.object), (None, None, None))
        return its_root is root and (its_path == "" or path == its_path or path.startswith(its_path + "."))

    def place_of_outermost(self, running, root, path):
        holder = running.holder(lambda other: other.object is not None)
        held = path_to(holder.object, root) if holder else None
        kind = type(root).__name__
        if held or holder is not None and holder.is_module:
            return joined(joined(holder.inside, held or self.names.again(kind)), path), None
        if id(root) not in self.calls:
            self.calls[id(root)] = self.names.again(kind), len(self.calls), 0
        name, order, calls = self.calls[id(root)]
        if running.is_forward:
            self.calls[id(root)] = name, order, calls + 1
        call = f"call{calls + 1}" if calls and running.is_forward else ""
        inside = joined(joined("" if order == 0 else name, call), path)
        return inside, None if path else joined(name, call)


# ------------------------------------------------------------------------------------------------ the reference
#
# For a module that `attn run` has: its weights, its inputs and its flags, as attn takes them.


class NoReference(Exception):
    """A module, or a use of one, that attn run does not have. Its text says what."""


def flags_of_layer(layer):
    """Of an encoder's or a decoder's."""
    flags = ["--heads", str(layer.self_attn.num_heads), "--epsilon", f"{layer.norm1.eps:g}"]
    if any(norm.eps != layer.norm1.eps for name, norm in layer.named_children() if name.startswith("norm")):
        raise NoReference("its norms have different epsilons")
    if layer.norm_first:
        flags += ["--norm", "pre"]
    return flags + ["--activation", activation_of(layer.activation)]


def activation_of(activation):
    name = getattr(activation, "__name__", type(activation).__name__).lower()
    if getattr(activation, "approximate", "none") == "tanh":
        name = "gelu-tanh"
    if name not in ("relu", "gelu", "gelu-tanh"):
        raise NoReference(f"its activation is {name}")
    return name


def flags_of_stack(stack):
    flags = flags_of_layer(stack.layers[0])
    return flags + (["--final-epsilon", f"{stack.norm.eps:g}"] if stack.norm is not None else [])


class Given:
    """What a module was called with, as attn takes it: batches first, masks true where a query can attend."""

    def __init__(self, values, is_batch_first, first):
        self.values = values
        self.is_batch_first = is_batch_first
        self.is_batch = values[first].dim() == 3

    def array(self, name):
        value = self.values.get(name)
        if value is not None and kind_of(value) is None:
            raise NoReference(f"{name} is a {type(value).__name__}")
        return None if value is None else numbers_of(value)

    def tokens(self, name):
        array = self.array(name)
        return np.swapaxes(array, 0, 1) if self.is_batch and not self.is_batch_first else array

    def mask(self, name, padding=None, heads=1):
        """A mask and one of padding, joined; None where there is neither."""
        can = self.attendable(name)
        if can is not None and can.ndim == 3:
            can = self.same_for_heads(can, heads)
        real = self.attendable(padding) if padding else None
        if real is not None:
            real = real[..., None, None, :] if real.ndim == 2 else real[None, :]
            can = real if can is None else can & real
        return can

    def attendable(self, name):
        array = self.array(name)
        if array is None or array.dtype == bool:
            return None if array is None else ~array
        if not np.isin(array, (0, -np.inf)).all():
            raise NoReference(f"{name} has other numbers than 0 and -inf")
        return array == 0

    @staticmethod
    def same_for_heads(mask, heads):
        mask = mask.reshape(-1, heads, *mask.shape[1:])
        if not (mask == mask[:, :1]).all():
            raise NoReference("its heads have different masks")
        return mask[:, :1]  # (b, 1, n, m): (b, n, m) could be (h, n, m)

    def attention(self, heads):
        """The queries' tokens, those of the memory where they are others, and masks."""
        query, key, value = (self.values[name] for name in ("query", "key", "value"))
        arrays = {"x": self.tokens("query")}
        if key is not query or value is not query:
            arrays["memory"] = self.tokens("key")
        if value is not key:
            arrays["value_memory"] = self.tokens("value")
        mask = self.array("attn_mask")
        if mask is not None and mask.dtype != bool and mask.ndim == 2 and not np.isin(mask, (0, -np.inf)).all():
            arrays["bias"], self.values = mask, {**self.values, "attn_mask": None}
        arrays["mask"] = self.mask("attn_mask", "key_padding_mask", heads)
        return arrays


def of_attention(module, values):
    if module.bias_k is not None or module.add_zero_attn:
        raise NoReference("it has bias_k or add_zero_attn")
    given = Given(values, module.batch_first, "query")
    return "multi-head-attention", ["--heads", str(module.num_heads)], given.attention(module.num_heads)


def given_to(attention, values, first):
    return Given(values, attention.batch_first, first), attention.num_heads


def of_encoder_layer(module, values):
    given, heads = given_to(module.self_attn, values, "src")
    mask = given.mask("src_mask", "src_key_padding_mask", heads)
    return "encoder-layer", flags_of_layer(module), {"x": given.tokens("src"), "mask": mask}


def of_encoder(module, values):
    given, heads = given_to(module.layers[0].self_attn, values, "src")
    mask = given.mask("mask", "src_key_padding_mask", heads)
    return "encoder", flags_of_stack(module), {"x": given.tokens("src"), "mask": mask}


def inputs_of_decoder(attention, values):
    given, heads = given_to(attention, values, "tgt")
    return {"x": given.tokens("tgt"), "memory": given.tokens("memory"),
            "mask": given.mask("tgt_mask", "tgt_key_padding_mask", heads),
            "memory_mask": given.mask("memory_mask", "memory_key_padding_mask", heads)}


def of_decoder_layer(module, values):
    return "decoder-layer", flags_of_layer(module), inputs_of_decoder(module.self_attn, values)


def of_decoder(module, values):
    return "decoder", flags_of_stack(module), inputs_of_decoder(module.layers[0].self_attn, values)


def of_transformer(module, values):
    given, heads = given_to(module.encoder.layers[0].self_attn, values, "src")
    inputs = {"source": given.tokens("src"), "target": given.tokens("tgt"),
              "source_mask": given.mask("src_mask", "src_key_padding_mask", heads),
              "target_mask": given.mask("tgt_mask", "tgt_key_padding_mask", heads),
              "memory_mask": given.mask("memory_mask", "memory_key_padding_mask", heads)}
    return "transformer", flags_of_stack(module.encoder), inputs


def of_recurrent(module, values):
    if getattr(module, "proj_size", 0):
        raise NoReference("it has a projection")
    given, names = Given(values, module.batch_first, "input"), ("initial_hidden", "initial_cell")
    state = values.get("hx")
    states = state if isinstance(state, tuple) else () if state is None else (state,)
    return type(module).__name__.lower(), [], {"x": given.tokens("input"), **{
        name: numbers_of(tensor) for name, tensor in zip(names, states)}}


def of_layer_norm(module, values):
    return "layer-norm", ["--epsilon", f"{module.eps:g}"], {"x": Given(values, True, "input").array("input")}


def ids_in(values):
    """The first argument that is ids; those of one sequence without the axis of the batch."""
    for value in values.values():
        if kind_of(value) is TorchTensors and "int" in str(value.dtype) and value.dim() in (1, 2):
            ids = numbers_of(value)
            return ids[0] if ids.ndim == 2 and len(ids) == 1 else ids
    raise NoReference("it was not called with ids")


def configured(module, *names):
    config = getattr(module, "config", None)
    found = [getattr(config, name) for name in names if getattr(config, name, None) is not None]
    if not found:
        raise NoReference(f"it has no config.{names[0]}")
    return found[0]


def of_published(module, values):
    """A module of transformers, whose own configuration says what it computes; see Reference.write()."""
    return "model", [], {"ids": ids_in(values)}


def has_config(module):
    return hasattr(getattr(module, "config", None), "to_json_string")


def config_of(module):
    """As save_pretrained() writes it."""
    config = json.loads(module.config.to_json_string())
    if type(module).__module__.startswith("transformers."):
        config["architectures"] = [type(module).__name__]
    return json.dumps(config, indent=2)


def of_llama(module, values):
    if has_config(module):
        return of_published(module, values)
    return "llama", ["--without-config", "--heads", str(configured(module, "num_attention_heads")), "--rotary-base",
                     f"{configured(module, 'rope_theta'):g}", "--epsilon", f"{configured(module, 'rms_norm_eps'):g}"], {
                         "ids": ids_in(values)}


def of_gpt(module, values):
    if has_config(module):
        return of_published(module, values)
    parts = list(module.modules())
    activations = [activation_of(part) for part in parts if isinstance(part, sys.modules["torch"].nn.GELU)]
    epsilons = [part.eps for part in parts if isinstance(part, sys.modules["torch"].nn.LayerNorm)] or [1e-5]
    return "gpt", ["--heads", str(configured(module, "n_head", "num_attention_heads")), "--activation",
                   (activations or ["gelu-tanh"])[0], "--epsilon", f"{epsilons[0]:g}"], {"ids": ids_in(values)}


REFERENCES = {"MultiheadAttention": of_attention, "TransformerEncoderLayer": of_encoder_layer,
              "TransformerEncoder": of_encoder, "TransformerDecoderLayer": of_decoder_layer,
              "TransformerDecoder": of_decoder, "Transformer": of_transformer, "GRU": of_recurrent,
              "LSTM": of_recurrent, "LayerNorm": of_layer_norm}
# Whoever wrote it: the names of its weights say what it is.
BY_WEIGHTS = {r"h\.0\.attn\.c_attn\.weight": of_gpt, r"layers\.0\.self_attn\.q_proj\.weight": of_llama}


def reference_of(module):
    """What says how attn run computes a module; None where it does not, as far as can be seen."""
    if type(module).__module__.startswith("torch."):
        return REFERENCES.get(type(module).__name__)
    names, has_ids = module.state_dict().keys(), any("Embedding" in type(part).__name__ for part in module.modules())
    if type(module).__module__.startswith("transformers.models.") and has_config(module):
        return of_published if has_ids else None
    return next((reference for pattern, reference in BY_WEIGHTS.items()
                 if has_ids and any(re.search(rf"(^|\.){pattern}$", name) for name in names)), None)


ENCODER_LAYER = {"self_attn": "self_attn.output", "norm1": "norm1.output", "linear1": "feed_forward.hidden",
                 "dropout": "feed_forward.activated", "linear2": "feed_forward.output", "norm2": "norm2.output"}
DECODER_LAYER = {**ENCODER_LAYER, "multihead_attn": "cross_attn.output", "norm3": "norm3.output"}
LAYERS = {"TransformerEncoderLayer": ENCODER_LAYER, "TransformerDecoderLayer": DECODER_LAYER}


def steps_of_parts(module):
    """Which steps of attn's the parts of a module are: {"layers.{i}.norm1": "layers.{i}.norm1.output"}."""
    kind, steps = type(module).__name__, {}
    if kind in LAYERS:
        return LAYERS[kind]
    for name, part in module.named_children():
        if isinstance(part, sys.modules["torch"].nn.ModuleList):
            inner, name = {"": "output", **steps_of_parts(part[0])}, name + ".{i}"
        else:
            inner = {"": "output", **steps_of_parts(part)} if name in ("encoder", "decoder", "norm") else {}
        steps.update({joined(name, theirs): joined(name, ours) for theirs, ours in inner.items()})
    return steps if kind.startswith("Transformer") else {}


class Reference:
    """Keeps the weights and the input of the first module that attn run has, or of one that was asked for."""

    def __init__(self, path, wanted):
        self.path = os.path.splitext(path)[0]
        self.wanted = wanted  # a module's name, or True for the first that is known
        self.kind = None  # of the module that was taken
        self.commands = None  # that compare with the reference
        self.is_known = False
        self.config = None  # of a published model

    def offer(self, running, values):
        """Hears of each module that is called, the outer ones first."""
        if self.is_known or self.wanted is not True and running.scope != self.wanted:
            return
        reference = reference_of(running.object)
        is_small = reference is of_layer_norm and self.wanted is True
        if self.kind is None or reference is not None and not is_small:
            self.take(running.object, dict(values), reference)
            self.steps = {joined(running.inside, part): step for part, step in steps_of_parts(running.object).items()}
            if reference not in BY_WEIGHTS.values():
                self.steps[running.scope] = "output"

    def take(self, module, values, reference):
        self.line = None
        self.weights = {name: numbers_of(tensor) for name, tensor in module.state_dict().items()}
        self.drops = module.training and any(getattr(part, "p", 0) for part in module.modules())
        try:
            if reference is None:
                raise NoReference("attn run has no such module, as far as can be told from its class")
            name, flags, self.inputs = reference(module, values)
            self.line = ["attn", "run", name, *flags]
            self.config = config_of(module) if name == "model" else None
        except NoReference as reason:
            self.reason = str(reason)
            self.inputs = {name + path: numbers_of(leaf) for name, value in
                           values.items() if name != "self" for path, leaf in leaves_of(value)}
        self.kind, self.is_known = type(module).__name__, reference is not None

    def write(self):
        """@return lines for people"""
        if self.kind is None:
            module = "module of PyTorch" if self.wanted is True else f"module {self.wanted}"
            return [f"there is no reference: no {module} was called"]
        weights, inputs, trace = (f"{self.path}.{what}.npz" for what in ("weights", "input", "reference"))
        if self.line and self.config:
            weights = self.path + ".model"
            os.makedirs(weights, exist_ok=True)
            with open(os.path.join(weights, "config.json"), "w", encoding="utf-8") as file:
                file.write(self.config)
            write_arrays(os.path.join(weights, "model.npz"), self.weights)
        else:
            write_arrays(weights, self.weights)
        write_arrays(inputs, {name: array for name, array in self.inputs.items() if array is not None})
        if self.line is None:
            return [f"{self.kind}: weights are in {weights}, inputs in {inputs}; which reference it has is for you to say: "
                    + self.reason]
        lines = [f"{self.kind}: dropout is on, which attn run has not: call eval()"] if self.drops else []
        run = [*self.line, "--input", inputs, "--weights", weights, "--quiet", "--trace", trace]
        maps = [word for pair in self.steps.items() for word in ("--map", "=".join(pair))]
        diff = ["attn", "diff", trace, self.path + ".npz", *maps, "--diagnose"]
        self.commands = run, diff
        return [*lines, "compare with", "  " + shlex.join(run), "  " + shlex.join(diff)]


def numbers_of(tensor):
    """A copy, since the program goes on."""
    return np.array(storable((kind_of(tensor) or TorchTensors).numbers(tensor)[0]))


def write_arrays(path, arrays):
    new = New(path)
    try:
        np.savez(new.out, **arrays)
        new.put_in_place()
    finally:
        new.drop()


# ------------------------------------------------------------------------------------------------ recording


class Recorder:
    """Follows a program, function by function, and writes what it assigns."""

    def __init__(self, path, own=None, only=(), depth=None, largest=LARGEST, most=MOST, reference=None, quiet=False):
        if not str(path).endswith(".npz"):
            raise ValueError(f"{path}: expected a name that ends in .npz")
        self.file = File(os.fspath(path), largest, most, list(only))
        self.is_own = OwnCode(own)
        self.modules = Modules(self.file.names)
        self.reference = Reference(self.file.path, reference) if reference else None
        self.depth = float("inf") if depth is None else depth
        self.codes = {}
        self.running = {}
        self.is_paused = False
        self.is_forked = False
        self.stance = None  # of PyTorch's compiler
        self.is_quiet = quiet
        self.lines = []  # that were said at the end
        self.troubles = collections.Counter()

    def start(self, frame):
        """frame: of who starts; None where a script is to be run."""
        self.before = sys.gettrace(), getattr(threading, "_trace_hook", None), frame and frame.f_trace
        if _active:
            _active[-1].is_paused = True
        _active.append(self)
        if frame is not None and self.is_own(frame.f_code.co_filename):
            running = Running(self, frame, self.code_of(frame.f_code), None, None)
            running.place = "", ""
            running.seen = {(name,): Seen(value, ()) for name, value in frame.f_locals.items() if kind_of(value) is not None}
            self.running[id(frame)] = running
            frame.f_trace = running.trace
        threading.settrace(self.on_call)
        sys.settrace(self.on_call)

    def stop(self, frame):
        if self not in _active:  # a signal came while it stopped
            return
        self.is_heard = sys.gettrace() == self.on_call
        if self.is_heard:
            sys.settrace(self.before[0])
        threading.settrace(self.before[1])
        if frame is not None:
            frame.f_trace = self.before[2]
            running = self.running.get(id(frame))
            if running is not None:
                running.look(frame)
                running.settle()
        if self.stance:
            self.stance.__exit__(None, None, None)
        self.is_paused = True
        _active.remove(self)
        if _active:
            _active[-1].is_paused = False
        if self.is_forked:
            return
        self.file.close()
        self.lines = [*self.report(), *self.written_reference()]
        for line in () if self.is_quiet else self.lines:
            say("attn_record: " + line if line[0] != " " else line)

    def written_reference(self):
        if not self.reference or self.file.trouble:
            return []
        try:
            return self.reference.write()
        except OSError as error:
            return [f"the reference cannot be written: {error}"]

    def report(self):
        yield from self.file.summary()
        for trouble, count in self.troubles.items():
            yield f"{self.file.path}: {count} times {trouble}; what these lines assign is missing. Please report it"
        if not self.is_heard:
            yield f"{self.file.path}: recording ended early: a debugger, or another tool, took Python's tracing"
        if not self.file.arrays and not self.file.trouble:
            yield (f"{self.file.path}: nothing was recorded: no function of your own code assigned a tensor. "
                   "--own FOLDER says which code is yours")

    def trouble(self, error):
        self.troubles[f"{type(error).__name__}: {error}"] += 1

    def code_of(self, code):
        known = self.codes.get(id(code))
        if known is None:
            is_own = self.is_own(code.co_filename)
            is_forward = code.co_name == "forward" and code.co_varnames[:1] == ("self",)
            known = self.codes[id(code)] = Code(code, is_own) if is_own or is_forward else Ignored(code)
        return known

    def on_call(self, frame, event, arg):
        """Hears of each call of a Python function."""
        if self.stance is None:
            self.run_eagerly()
        code = self.codes.get(id(frame.f_code)) or self.code_of(frame.f_code)
        if code.is_ignored or event != "call" or self.is_paused:
            return None
        try:
            return self.follow(frame, code)
        except Exception as error:
            self.trouble(error)
            return None

    def run_eagerly(self):
        """Has PyTorch run what torch.compile() compiled as it is written, where it can be told to (from 2.6 on)."""
        compiler = sys.modules.get("torch._dynamo")
        if compiler is not None and not getattr(compiler.__spec__, "_initializing", False):
            set_stance = getattr(sys.modules["torch"].compiler, "set_stance", None)
            self.stance = set_stance("force_eager") if set_stance else False

    def follow(self, frame, code):
        going_on = self.running.get(id(frame))
        if going_on is not None and going_on.code is code and code.is_generator:
            return going_on.trace
        if not code.is_own and not self.modules.is_one(frame.f_locals.get("self")):
            return None
        parent, site, caller = self.caller_of(frame)
        running = Running(self, frame, code, parent, site)
        if running.depth > self.depth or (not code.is_own and running.is_super):
            return None
        self.running[id(frame)] = running
        if parent is not None and running.is_forward:
            parent.has_parts = True
        running.begin(frame, caller)
        if not code.is_own:
            frame.f_trace_lines = False
        return running.trace

    def caller_of(self, frame):
        """The call around it that is followed; where in it, if that is in a loop; and its frame."""
        site, caller = None, frame.f_back
        while caller is not None:
            running = self.running.get(id(caller))
            if running is not None and running.code.code is not caller.f_code:
                running = None  # of a call that ended unheard, while another recording ran
            code = running.code if running else self.codes.get(id(caller.f_code))
            if site is None and code is not None and code.loops and code.loops_around(caller.f_lasti):
                site = id(code), caller.f_lasti
            if running is not None:
                return running, site, caller
            caller = caller.f_back
        return None, None, None

    def forked(self):
        self.is_paused = self.is_forked = True
        self.file.forget()


class Ignored:
    """A function of somebody else."""

    is_ignored, loops = True, ()

    def __init__(self, code):
        self.code = code  # kept, so that its id stays its own


def say(line):
    """To standard error, where that is open."""
    if sys.stderr is not None:  # which print() would take for standard output
        with contextlib.suppress(OSError, ValueError, AttributeError):
            print(line, file=sys.stderr)


_active = []  # recorders; the last one records


def _after_fork():
    for recorder in _active:
        recorder.forked()
    if _active:
        sys.settrace(None)
        threading.settrace(None)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class to:
    """Records into an .npz file what the code in a with statement, and all that it calls, assigns to variables.

    own        folders of your own code; without them all that is neither Python's nor an installed package
    only       names or variables, with * and ?: only these are recorded
    depth      how deep calls are followed: 0 is the code in the with statement itself
    largest    array that is recorded, in MiB
    most       that is recorded, in MiB
    reference  True, or the name of a module of PyTorch: its weights and input are written beside the file
    quiet      print nothing at the end; the attribute lines has what it would be, and commands the words of the two commands
               that compare with the reference, or None
    """

    def __init__(self, path, *, own=None, only=(), depth=None, largest=LARGEST // MEGABYTE, most=MOST // MEGABYTE,
                 reference=None, quiet=False):
        self.path = path
        self.arguments = (path, [own] if isinstance(own, str) else own, [only] if isinstance(only, str) else only, depth,
                          largest * MEGABYTE, most * MEGABYTE, reference, quiet)

    def __enter__(self):
        self.recorder = Recorder(*self.arguments)
        self.recorder.start(sys._getframe(1))
        return self

    def __exit__(self, *_):
        self.recorder.stop(sys._getframe(1))
        self.lines = self.recorder.lines
        self.commands = self.recorder.reference and self.recorder.reference.commands


# ------------------------------------------------------------------------------------------------ the command line


def arguments():
    parser = argparse.ArgumentParser(
        prog="attn_record", usage="python3 -m attn_record [options] FILE.npz -- SCRIPT.py [argument ...]",
        description=__doc__.split("\n")[0], formatter_class=argparse.RawDescriptionHelpFormatter, epilog=EPILOG)
    parser.add_argument("file", metavar="FILE.npz", help="is written when the script ends, however it ends")
    parser.add_argument("--own", action="append", metavar="FOLDER", help="only code in this folder is yours (default: all "
                        "that is neither Python's nor an installed package); can be given again")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN",
                        help="record only these names or variables; * and ? stand for others; can be given again")
    parser.add_argument("--depth", type=int, metavar="N", help="follow calls N deep; 0 is the script itself")
    parser.add_argument("--largest", type=float, default=LARGEST / MEGABYTE, metavar="MIB",
                        help="leave out an array that is larger (default: %(default)g MiB)")
    parser.add_argument("--most", type=float, default=MOST / MEGABYTE, metavar="MIB",
                        help="leave out what would make the file larger (default: %(default)g MiB)")
    parser.add_argument("--reference", action="store_true", help="write the weights and the input of a PyTorch module, too, "
                        "and print the lines that compare: of the first module that attn run has")
    parser.add_argument("--module", metavar="NAME", help="the same for the module of this name: encoder.layers.0")
    parser.add_argument("script", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.script[:1] == ["--"]:
        del given.script[0]
    if not given.script:
        parser.error("which script? python3 -m attn_record FILE.npz -- SCRIPT.py")
    return given


EPILOG = """What is left out is said at the end.

A program takes about 1.5 to 2 times as long where its tensors are large, a quarter of a millisecond more per array where
they are small, and 2.5 microseconds more per line of your own code. docs/record.md has the rest.
"""


def run_script(script):
    """As Python runs it."""
    sys.modules.setdefault("attn_record", sys.modules[__name__])
    if script[0] == "-m":
        sys.argv = script[1:]
        runpy.run_module(script[1], run_name="__main__", alter_sys=True)
        return
    path = os.path.abspath(script[0])
    with open(path, "rb") as file:
        code = compile(file.read(), path, "exec")
    sys.argv, sys.path[0] = script, os.path.dirname(path)
    sys.modules["__main__"] = module = types.ModuleType("__main__")
    module.__file__ = path
    module.__builtins__ = sys.modules["builtins"]
    if sys.version_info < (3, 14):  # where a module has it from the beginning
        module.__annotations__ = {}
    module.__cached__ = None
    exec(code, module.__dict__)


def main():
    given = arguments()
    if given.script[0] != "-m" and not os.path.isfile(given.script[0]):
        print(f"attn_record: {given.script[0]}: there is no such script", file=sys.stderr)
        sys.exit(2)
    try:
        recorder = Recorder(given.file, given.own, given.only, given.depth, given.largest * MEGABYTE,
                            given.most * MEGABYTE, given.module or given.reference)
    except (OSError, ValueError) as error:
        print(f"attn_record: {error}", file=sys.stderr)
        sys.exit(2)
    record_script(recorder, given.script)


def record_script(recorder, script):
    """Runs a script, recorded. It raises SystemExit where the script does, or where it fails, which is reported."""
    end_by_signals(recorder)
    is_interrupted = False
    recorder.start(None)
    try:
        run_script(script)
    except SystemExit:
        raise
    except BaseException as error:
        report_exception(error)
        is_interrupted = isinstance(error, KeyboardInterrupt)
        sys.exit(1)
    finally:
        recorder.stop(None)
        if is_interrupted:
            die_by(signal.SIGINT)


def end_by_signals(recorder):
    """A signal that ends the program ends the recording first, unless the program does something else at it."""
    process = os.getpid()

    def end(number, frame):
        if os.getpid() == process:  # not in a child
            recorder.stop(None)
        die_by(number)

    for name in ("SIGTERM", "SIGHUP", "SIGXCPU"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, end)


def die_by(number):
    """As Python does at Ctrl-C: who waits for the program sees which signal ended it."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def report_exception(error):
    """As Python reports it, with the script's own part of the traceback."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename in (__file__, runpy.__file__, "<frozen runpy>"):
        frames = frames.tb_next
    error.__traceback__ = frames
    try:
        sys.excepthook(type(error), error, frames)
    except Exception:
        sys.__excepthook__(*sys.exc_info())


if __name__ == "__main__":
    main()
