"""A call of a PyTorch module as its caller wrote it: before hooks changed the arguments, and after they changed the result."""

import inspect

import numpy as np

from .kept import isinstance
from .tensors import TorchTensors, keys_and_parts, kind_of, storable, word


class NoReference(Exception):
    """A module, or a use of one, that attn run does not have. Its text says what."""


class Call:
    """A module's __call__, which has its hooks and its forward in it; or its forward, where that was called itself."""

    def __init__(self, recorder, around, module, arguments, named):
        self.recorder, self.around = recorder, around
        self.module, self.arguments, self.named = module, arguments, named
        self.running = None  # its forward

    def tensors(self):
        return {id(leaf) for _, leaf in results_in((self.arguments, self.named))}

    def unused_by(self, part):
        """The arguments, but for those without effect, that the call of a part of it did not get."""
        values = Given(self.values(type(self.module), self.named)).left
        known = part.tensors()
        return [name for name, value in values.items() if not {id(leaf) for _, leaf in results_in(value)} & known]

    def outermost(self):
        return self.around.outermost() if self.around else self

    def trace(self, frame, event, arg):
        """Hears of the end."""
        if event == "return":
            self.recorder.end_of_call(self, arg)
        return self.trace

    def values(self, kind, forward):
        """The arguments by name, but for those that have their default.

        kind     the class whose names they have
        forward  what forward() finds, where names can't be told
        """
        try:
            signature = inspect.signature(kind.forward)
            bound = signature.bind(self.module, *self.arguments, **self.named).arguments
        except (TypeError, ValueError):
            return {name: value for name, value in forward.items() if name != "self" and value is not None}
        found = {}
        for (name, value), kind in zip(bound.items(), (signature.parameters[name] for name in bound)):
            if kind.kind is kind.VAR_KEYWORD:
                found.update(value)
            elif kind.kind is kind.VAR_POSITIONAL:
                found.update((f"{name}.{i}", part) for i, part in enumerate(value))
            elif not same_plain(value, kind.default):
                found[name] = value
        return {name: value for name, value in list(found.items())[1:] if value is not None}


def same_plain(value, default):
    return value is default or type(value) is type(default) and isinstance(value, (int, float, str)) and value == default


# They change what is returned beside the result, if anything. is_causal only tells PyTorch what the mask says.
WITHOUT_EFFECT = {"need_weights", "average_attn_weights", "is_causal", "src_is_causal", "tgt_is_causal", "memory_is_causal",
                  "use_cache", "output_attentions", "output_hidden_states", "return_dict"}


class Given:
    """What a module was called with. Each argument is taken for the reference, has no effect, or is refused by its name."""

    is_swapped = False  # the batch is the second axis

    def __init__(self, values):
        self.values = values
        self.left = {name: value for name, value in values.items() if name not in WITHOUT_EFFECT}

    def take(self, name):
        self.left.pop(name, None)
        return self.values.get(name)

    def array(self, name):
        value = self.take(name)
        if value is None:
            return None
        if kind_of(value) is None:
            raise NoReference(f"{name} is a {type(value).__name__}, expected a tensor")
        return numbers_of(value)

    def expect_none_left(self, kind):
        for name, value in self.left.items():
            if hasattr(value, "get_seq_length") and not value.get_seq_length():
                continue  # a cache without tokens
            raise NoReference(f'its argument {name} is none that attn run {kind} takes, as far as its name tells: leave it out, say '
                              f'ignore=["{name}"] where it changes no result, or which input of attn run {kind} it is, '
                              f'reference="{kind}", rename={{"{name}": "…"}}')


def numbers_of(tensor):
    """A copy, since the program goes on."""
    return np.array(storable((kind_of(tensor) or TorchTensors).numbers(tensor)[0]))


DEEPEST = 6


def results_in(value, path="", depth=0, is_held=False):
    """What a call returned, by where it is: tensors, those of objects such as a cache, too; a number of Python is None here.

    Whole numbers that an object holds, such as the window of a cache, are none, Python's or a tensor without axes.
    """
    if kind_of(value) is not None:
        if not (is_held and np.shape(value) == () and numbers_of(value).dtype.kind in "iu"):
            yield path, value
    elif isinstance(value, float) and not is_held:
        yield path, None
    elif depth < DEEPEST:
        is_container = isinstance(value, (dict, list, tuple))
        held = {} if isinstance(value, type) or callable(value) else getattr(value, "__dict__", {})
        for name, part in keys_and_parts(value) if is_container else list(held.items()):
            yield from results_in(part, f"{path}.{word(str(name))}", depth + 1, not is_container)
