"""The weights, input and flags of a module that attn run has."""

import json
import os
import re
import shlex
import sys

import numpy as np

from .kept import isinstance, len, open
from .file import New
from .modules import joined
from .tensors import TorchTensors, kind_of, leaves_of, storable, word


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
