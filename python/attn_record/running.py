"""A running function, and what its variables hold from line to line."""

import types

from .kept import isinstance, len
from .code import shown
from .modules import attribute_of, is_other, joined, name_of, namesake, path_to, value_at
from .tensors import TorchTensors, checksum, full_states, kind_of, leaves_of, word


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

    def used_by_call(self, frame):
        """The arrays that stand in the call of a function; where Python does not tell, in the statement."""
        return self.used_by_statement(frame, self.code.used_by_call(frame.f_lasti))

    def used_by_statement(self, frame, paths=None):
        """The arrays that the statement uses, as far as it has been followed: more than the assigned one was computed from
        where a line has several statements, and what a followed call was given beside what it returned."""
        if not self.code.is_own:
            return {**self.reads, **self.returned}
        tensors, values = [], frame.f_locals
        for path in self.code.used_in(*self.code.statement(self.line)) if paths is None else paths:
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
        self.reads = self.parent.used_by_call(caller) if self.parent else {}
        for name in self.code.arguments:
            if name in values and not (name == "self" and self.code.has_self):
                self.seen[name,] = seen = Seen(values[name], ())
                if kind_of(values[name]) is not None:
                    full = self.recorder.file.names.again(joined(self.scope, name))
                    self.record_unless_known(full, name, seen.leaves, self.parent)  # which computed it
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
            names = self.sources_of(leaf for leaf, _ in leaves.values())
            self.parent.returned.update(names)
            if self.parent.placed() == ("", "") and self.parent.parent is None:
                self.recorder.returned.update(names)

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

    def record_unless_known(self, name, variable, leaves, computed_by=None):
        """Stores the tensors that are not stored under another name.

        computed_by  the running function whose line computed them; this one unless given
        """
        file, origin = self.recorder.file, (computed_by or self).origin(variable)
        for path, (tensor, state) in leaves.items():
            known = file.name_of(tensor, state)
            if known is None:
                file.add(name + path, tensor, state, origin, self.reads)
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
