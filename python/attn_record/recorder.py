"""Recording: hears of each call, and writes what it assigns."""

import collections
import contextlib
import os
import sys
import threading

from .kept import isinstance, print, settrace, use_tool_id
from .asked import Call, results_in
from .code import Code, OwnCode
from .file import File, LARGEST, MOST
from .modules import Modules
from .references import Reference, base_of
from .running import Running, Seen
from .tensors import MEGABYTE, kind_of


class Recorder:
    """Follows a program, function by function, and writes what it assigns."""

    def __init__(self, path, own=None, only=(), depth=None, largest=LARGEST, most=MOST, reference=None, quiet=False, results=None):
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
        self.lost = {}  # what is missing in the recording, and why; a dict, for the order
        self.calls = {}  # of modules that run, the innermost one, by thread
        self.results = results  # names of what was returned; None where nobody has said so
        self.returned = {}  # by what a with statement calls; a dict, for the order

    def start(self, frame):
        """frame: of who starts; None where a script is to be run."""
        self.thread, self.before, self.frame = threading.get_ident(), sys.gettrace(), frame
        for outer in _recording_in(self.thread)[-1:]:
            outer.is_paused = True
        if not _active:
            _watch_threads_and_tracers()
        _active.append(self)
        if frame is not None:
            self.trace_before = frame.f_trace
            if self.is_own(frame.f_code.co_filename):
                running = Running(self, frame, self.code_of(frame.f_code), None, None)
                running.place = "", ""
                running.seen = {(name,): Seen(value, ()) for name, value in frame.f_locals.items() if kind_of(value) is not None}
                self.running[id(frame)] = running
                frame.f_trace = running.trace
        settrace(self.on_call)

    def stop(self, error=None):
        """error: that ends the recording, if one does"""
        if self not in _active:  # a signal came while it stopped
            return
        if sys.gettrace() == self.on_call:
            settrace(self.before)
        else:
            self.lost[TAKEN] = None
        if error:
            self.lost[f"the program ended before its end: {error}"] = None
        if self.frame is not None:
            self.frame.f_trace = self.trace_before
            running = self.running.get(id(self.frame))
            if running is not None:
                running.look(self.frame)
                running.settle()
        if self.stance:
            self.stance.__exit__(None, None, None)
        self.is_paused = True
        _active.remove(self)
        for outer in _recording_in(self.thread)[-1:]:
            outer.is_paused = False
        if not _active:
            _unwatch()
        if self.is_forked:
            return
        for trouble, count in self.troubles.items():
            self.lost[f"{count} times {trouble}; what these lines assign is missing. Please report it"] = None
        if self.results is None and self.frame is not None and self.reference is None:
            self.results = self.unread() or None
        self.file.close(self.results, list(self.lost))
        self.lines = [*self.report(), *self.written_reference()]
        for line in () if self.is_quiet else self.lines:
            say("attn_record: " + line if line[0] != " " else line)

    def written_reference(self):
        if not self.reference or self.file.trouble:
            return []
        try:
            return self.reference.write([entry["name"] for entry in self.file.arrays])
        except OSError as error:
            self.file.trouble = f"the reference cannot be written: {error}"
            return [self.file.trouble]

    def report(self):
        yield from self.file.summary()
        for lost in self.lost:
            yield f"{self.file.path}: {lost}"
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
            kind = OfModules if self.modules.is_call(code) else Ignored
            known = self.codes[id(code)] = Code(code, is_own) if is_own or is_forward else kind(code)
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
        if code.is_call_of_module:
            frame.f_trace_lines = False
            given = (frame.f_locals.get(name) for name in frame.f_code.co_varnames[:3])  # (self, *args, **kwargs); PyTorch 1 has other words
            call = self.calls[threading.get_ident()] = Call(self, self.calls.get(threading.get_ident()), *given)
            return call.trace
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
        if running.is_forward:
            self.begin_forward(running, frame)
        if not code.is_own:
            frame.f_trace_lines = False
        return running.trace

    def begin_forward(self, running, frame):
        found = {name: frame.f_locals.get(name) for name in running.code.arguments}
        call = self.calls.get(threading.get_ident())
        if call is None or call.module is not running.object:  # forward() itself was called
            call = Call(self, call, running.object, (), {name: value for name, value in found.items() if name != "self"})
        call.running = running
        if self.reference is not None:
            self.reference.offer(running, call, call.values(base_of(call.module) or type(call.module), found))

    def end_of_call(self, call, result):
        """Notes how the recording calls what the module that is asked about returned."""
        self.calls[threading.get_ident()] = call.around
        if self.reference is None or call not in (self.reference.call, self.reference.asked):
            return
        names = {path: self.name_of_result(call, path, leaf) for path, leaf in results_in(result)}
        self.reference.returned(call, names)
        if call is self.reference.asked:
            given = {entry["name"] for entry in self.file.arrays if not entry["reads"]}
            same = {entry["name"]: entry.get("same_as", entry["name"]) for entry in self.file.arrays}
            names = list(names.values())
            self.results = [name for name in names if same.get(name) not in given] or names  # an argument that is handed on says nothing

    def unread(self):
        """What a with statement leaves: arrays that it has computed, or that its calls returned, and that it does not use."""
        same = {entry["name"]: entry.get("same_as", entry["name"]) for entry in self.file.arrays}
        own = [entry for entry in self.file.arrays if "call" not in entry and entry["reads"]]
        used = {same.get(name) for entry in own for name in entry["reads"] if same[entry["name"]] != name}
        names = {same.get(name, name): name for name in (*self.returned, *(entry["name"] for entry in own))}
        return [name for root, name in names.items() if root not in used]

    def name_of_result(self, call, path, leaf):
        """That of its array, which is stored where nobody has assigned it."""
        running = call.running
        plain = (running.scope if running else type(call.module).__name__) + ("" if path == ".0" else path)
        if leaf is None:
            return plain
        state = kind_of(leaf).state(leaf)
        if running and not self.file.name_of(leaf, state):
            self.file.add(plain, leaf, state, running.origin("return"), running.reads)
        known = self.file.name_of(leaf, state)
        return self.file.own_name(plain, known) or known or plain

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

    is_ignored, loops, is_call_of_module, is_own, is_generator = True, (), False, False, False

    def __init__(self, code):
        self.code = code  # kept, so that its id stays its own


class OfModules(Ignored):
    """What PyTorch calls a module by: its hooks and its forward are in it."""

    is_ignored, is_call_of_module = False, True


def say(line):
    """To standard error, where that is open."""
    if sys.stderr is not None:  # which print() would take for standard output
        with contextlib.suppress(OSError, ValueError, AttributeError):
            print(line, file=sys.stderr)


_active = []  # recorders; the last one of a thread records
TAKEN = "recording ended early: a debugger, or another tool, took Python's tracing"
OF_NOBODY = "a thread was started while another thread recorded, too, and is not recorded"


def _recording_in(thread):
    return [recorder for recorder in _active if recorder.thread == thread]


def _on_call_in_new_thread(frame, event, arg):
    if len({recorder.thread for recorder in _active}) == 1:
        settrace(_active[-1].on_call)
        return _active[-1].on_call(frame, event, arg)
    for recorder in _active:
        recorder.lost[OF_NOBODY] = None
    settrace(None)
    return None


def _notice_tracer(function):
    """Stands in sys.settrace's place while something is recorded."""
    for recorder in _active:
        if sys.gettrace() == recorder.on_call:
            recorder.lost[TAKEN] = None
    settrace(function)


def _notice_debugger(tool, name):
    """Stands in sys.monitoring.use_tool_id's place: pdb begins so from Python 3.14 on, and takes the tracing of each frame when it goes on."""
    for recorder in _active if tool == sys.monitoring.DEBUGGER_ID else ():
        recorder.lost[TAKEN] = None
    use_tool_id(tool, name)


def _watch_threads_and_tracers():
    global _threads_before
    _threads_before = getattr(threading, "_trace_hook", None)
    threading.settrace(_on_call_in_new_thread)
    sys.settrace = _notice_tracer
    if use_tool_id is not None:
        sys.monitoring.use_tool_id = _notice_debugger


def _unwatch():
    threading.settrace(_threads_before)
    if sys.settrace is _notice_tracer:
        sys.settrace = settrace
    if use_tool_id is not None and sys.monitoring.use_tool_id is _notice_debugger:
        sys.monitoring.use_tool_id = use_tool_id


def _after_fork():
    for recorder in _active:
        recorder.forked()
    if _active:
        settrace(None)
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
    reference  True, or the name of a module of PyTorch, or what is Wanted of it: its weights and input are written beside the file
    results    the names of arrays that are the result; those that nothing else was computed from unless given
    quiet      print nothing at the end; the attribute lines has what it would be, and commands the words of the two commands
               that compare with the reference, or None
    """

    def __init__(self, path, *, own=None, only=(), depth=None, largest=LARGEST // MEGABYTE, most=MOST // MEGABYTE,
                 reference=None, quiet=False, results=None):
        self.path = path
        self.arguments = (path, [own] if isinstance(own, str) else own, [only] if isinstance(only, str) else only, depth,
                          largest * MEGABYTE, most * MEGABYTE, reference, quiet, results)

    def __enter__(self):
        self.recorder = Recorder(*self.arguments)
        self.recorder.start(sys._getframe(1))
        return self

    def __exit__(self, kind, error, _):
        self.recorder.stop(kind and f"{kind.__name__}: {error}".splitlines()[0])
        self.lines = self.recorder.lines
        self.commands = self.recorder.reference and self.recorder.reference.commands
