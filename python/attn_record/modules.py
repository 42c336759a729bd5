"""PyTorch's modules, and where they are in the outermost one."""

import functools
import sys
import types

from .kept import isinstance, len
from .tensors import LONGEST_CONTAINER, keys_and_parts, length_of, word


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

    @staticmethod
    def is_call(code):
        """Of what a module is called by, with its hooks."""
        torch = sys.modules.get("torch")
        return code is getattr(getattr(getattr(getattr(torch, "nn", None), "Module", None), "__call__", None), "__code__", "")

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
