"""Recording: hears of each call, and writes what it assigns."""

import collections
import contextlib
import os
import sys
import threading

from .kept import isinstance, print
from .code import Code, OwnCode
from .file import File, LARGEST, MOST
from .modules import Modules
from .references import Reference
from .running import Running, Seen
from .tensors import MEGABYTE, kind_of


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
