"""The weights, input and flags of a module that attn run has."""

import fnmatch
import json
import os
import re
import shlex
import sys

import numpy as np

from .asked import Given, NoReference, numbers_of
from .kept import isinstance, len, open
from .file import New
from .modules import joined
from .tensors import TorchTensors, kind_of, leaves_of

#
# For a module that `attn run` has: its weights, its inputs and its flags, as attn takes them. Batches come first, masks are true
# where a query can attend.


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


def flags_of_stack(*stacks):
    """One for all of its layers."""
    flags = flags_of_layer(stacks[0].layers[0])
    if any(flags_of_layer(layer) != flags for stack in stacks for layer in stack.layers):
        raise NoReference("its layers differ in heads, epsilon, activation or the place of their norms")
    norms = [stack.norm for stack in stacks if stack.norm is not None]
    if any(type(norm).__name__ != "LayerNorm" or norm.eps != norms[0].eps for norm in norms):
        raise NoReference("its last norm is no LayerNorm, or they have different epsilons")
    return flags + (["--final-epsilon", f"{norms[0].eps:g}"] if norms else [])


class Tokens:
    """Sequences and masks of one of PyTorch's modules, whose batch is the first axis or the second."""

    def __init__(self, given, attention, first):
        self.given, self.heads = given, getattr(attention, "num_heads", 1)
        self.is_swapped = given.is_swapped = not attention.batch_first and given.array(first).ndim == 3

    def of(self, name):
        array = self.given.array(name)
        return np.swapaxes(array, 0, 1) if self.is_swapped and array is not None else array

    def mask(self, name, padding=None):
        """A mask and one of padding, joined; None where there is neither."""
        can = self.attendable(name)
        if can is not None and can.ndim == 3:
            can = self.same_for_heads(can)
        real = self.attendable(padding) if padding else None
        if real is not None:
            real = real[..., None, None, :] if real.ndim == 2 else real[None, :]
            can = real if can is None else can & real
        return can

    def attendable(self, name):
        array = self.given.array(name)
        if array is None or array.dtype == bool:
            return None if array is None else ~array
        if not np.isin(array, (0, -np.inf)).all():
            raise NoReference(f"{name} has other numbers than 0 and -inf")
        return array == 0

    def same_for_heads(self, mask):
        mask = mask.reshape(-1, self.heads, *mask.shape[1:])
        if not (mask == mask[:, :1]).all():
            raise NoReference("its heads have different masks")
        return mask[:, :1]  # (b, 1, n, m): (b, n, m) could be (h, n, m)


def of_attention(module, given):
    if module.bias_k is not None or module.add_zero_attn:
        raise NoReference("it has bias_k or add_zero_attn")
    tokens = Tokens(given, module, "query")
    query, key, value = (given.values[name] for name in ("query", "key", "value"))
    arrays = {"x": tokens.of("query"), "memory": tokens.of("key"), "value_memory": tokens.of("value")}
    if value is key:
        del arrays["value_memory"]
    if key is query and value is query:
        del arrays["memory"]
    mask = given.array("attn_mask")
    if mask is not None and mask.dtype != bool and mask.ndim == 2 and not np.isin(mask, (0, -np.inf)).all():
        arrays["bias"], given.values = mask, {**given.values, "attn_mask": None}
    arrays["mask"] = tokens.mask("attn_mask", "key_padding_mask")
    return ["--heads", str(module.num_heads)], arrays


def of_encoder(module, given):
    """Of one of its layers, too."""
    tokens = Tokens(given, getattr(module, "self_attn", None) or module.layers[0].self_attn, "src")
    mask = tokens.mask("mask" if hasattr(module, "layers") else "src_mask", "src_key_padding_mask")
    return flags_of(module), {"x": tokens.of("src"), "mask": mask}


def of_decoder(module, given):
    """Of one of its layers, too."""
    tokens = Tokens(given, getattr(module, "self_attn", None) or module.layers[0].self_attn, "tgt")
    return flags_of(module), {"x": tokens.of("tgt"), "memory": tokens.of("memory"),
                              "mask": tokens.mask("tgt_mask", "tgt_key_padding_mask"),
                              "memory_mask": tokens.mask("memory_mask", "memory_key_padding_mask")}


def flags_of(module):
    return flags_of_stack(module) if hasattr(module, "layers") else flags_of_layer(module)


def of_transformer(module, given):
    tokens = Tokens(given, module.encoder.layers[0].self_attn, "src")
    return flags_of_stack(module.encoder, module.decoder), {
        "source": tokens.of("src"), "target": tokens.of("tgt"), "source_mask": tokens.mask("src_mask", "src_key_padding_mask"),
        "target_mask": tokens.mask("tgt_mask", "tgt_key_padding_mask"),
        "memory_mask": tokens.mask("memory_mask", "memory_key_padding_mask")}


def of_recurrent(module, given):
    if getattr(module, "proj_size", 0):
        raise NoReference("it has a projection")
    tokens, state = Tokens(given, module, "input"), given.take("hx")
    states = state if isinstance(state, tuple) else () if state is None else (state,)
    return [], {"x": tokens.of("input"), **{name: numbers_of(one) for name, one in zip(("initial_hidden", "initial_cell"), states)}}


def of_norm(module, given):
    if getattr(module, "eps", None) is None:
        raise NoReference("it has no epsilon, which is then that of its type")
    return ["--epsilon", f"{module.eps:g}"], {"x": given.array("input")}


def configured(module, *names):
    config = getattr(module, "config", None)
    found = [getattr(config, name) for name in names if getattr(config, name, None) is not None]
    if not found:
        raise NoReference(f"it has no config.{names[0]}")
    return found[0]


EMBEDDED = "inputs_embeds"
BESIDE_IDS = ("attention_mask", "token_type_ids", "position_ids")
OF_DECODER = ("decoder_input_ids", "decoder_attention_mask")


def ids_and_what_belongs_to_them(given):
    """Of a model: the first argument that is ids, of one sequence without the axis of the batch; which of them are real; their types."""
    names = [name for name, value in given.values.items() if name not in BESIDE_IDS + OF_DECODER and kind_of(value) is TorchTensors
             and ("int" in str(value.dtype) and value.dim() in (1, 2) or name == EMBEDDED)]
    if not names:
        raise NoReference("it was not called with ids")
    ids = given.array(names[0])
    mask, types, _ = (given.array(name) for name in BESIDE_IDS)
    is_one = len(ids) == 1 and ids.ndim == (3 if names[0] == EMBEDDED else 2)
    arrays = {names[0] if names[0] == EMBEDDED else "ids": ids, "token_type_ids": types}
    if mask is not None and (mask.shape != ids.shape[:2] or not np.isin(mask, (0, 1)).all()):
        raise NoReference(f"attention_mask is {mask.shape}, expected 1 or 0 for each of the ids, {ids.shape}")
    if mask is not None and not mask.all():
        return {**arrays, "attention_mask": mask.astype(int)}
    return {name: array[0] if is_one and array is not None else array for name, array in arrays.items()}


def of_published(_, given):
    """A module of transformers, whose own configuration says what it computes; see Reference.write()."""
    of_decoder = decoder_ids(given)
    for name in ("pixel_values", "input_features"):
        if name in given.values and (signal := given.array(name)) is not None:
            return [], {name: signal[0] if len(signal) == 1 else signal, **of_decoder, **shape_of_patches(given)}
    places = coordinates(given)
    first = 0 if places else first_position(given)
    arrays = {**ids_and_what_belongs_to_them(given), **of_decoder, **places}
    if of_decoder and arrays["ids"].ndim != arrays["decoder_ids"].ndim:  # one of them has padding
        arrays = {name: array if array is None else np.atleast_2d(array) for name, array in arrays.items()}
    return ["--first", str(first)] if first else [], arrays


def shape_of_patches(given):
    """Of an image whose patches are cut already."""
    shapes, mask = given.array("spatial_shapes"), given.array("pixel_attention_mask")
    if mask is not None and not mask.all():
        raise NoReference("pixel_attention_mask hides patches: check images one by one, without their padding")
    return {} if shapes is None else {"spatial_shapes": shapes[0] if len(shapes) == 1 else shapes}


def coordinates(given):
    """Where the tokens of one sequence stand in time, height and width."""
    positions = given.array("position_ids")
    if positions is None or positions.ndim != 3:
        return {}
    if positions.shape[:2] != (3, 1):
        raise NoReference(f"position_ids are {positions.shape}, expected (3, 1, n): check sequences one by one")
    return {"position_ids": positions[:, 0]}


def decoder_ids(given):
    """Of a model with an encoder and a decoder: the ids of the decoder, as those of the encoder."""
    ids, mask = (given.array(name) for name in OF_DECODER)
    if ids is None:
        return {}
    if mask is not None and not mask.all():
        return {"decoder_ids": ids, "decoder_attention_mask": mask.astype(int)}
    return {"decoder_ids": ids[0] if len(ids) == 1 else ids}


def first_position(given):
    """That of all sequences, whose tokens stand side by side."""
    positions = given.array("position_ids")
    if positions is None:
        return 0
    first = int(positions.flat[0])
    if not (positions == first + np.arange(positions.shape[-1])).all():
        raise NoReference("its position_ids are not those of tokens side by side, from the same position in each sequence: attn run takes "
                          "no others; check such sequences one by one, without their padding")
    return first


def has_config(module):
    return hasattr(getattr(module, "config", None), "to_json_string")


def weights_of(module, weights=None):
    """A model of transformers has the names that save_pretrained() writes, which can be others than those of its state_dict.

    weights  other tensors in place of those of its state_dict
    """
    revert = getattr(sys.modules.get("transformers.core_model_loading"), "revert_weight_conversion", None)
    weights = dict(weights or module.state_dict())
    return revert(module, weights) if revert and has_config(module) and hasattr(module, "save_pretrained") else weights


def config_of(module):
    """As save_pretrained() writes it."""
    config = json.loads(module.config.to_json_string())
    if type(module).__module__.startswith("transformers."):
        config["architectures"] = [type(module).__name__]
    return json.dumps(config, indent=2)


def ids_and_lengths(given):
    if first_position(given):
        raise NoReference("its position_ids do not begin at 0, which this reference can't be told")
    arrays = ids_and_what_belongs_to_them(given)
    if EMBEDDED in arrays:
        raise NoReference("it was not called with ids")
    mask = arrays.pop("attention_mask", None)
    if mask is not None and (np.diff(mask) > 0).any():
        raise NoReference("attention_mask hides tokens before others, and this reference takes lengths")
    return arrays if mask is None else {**arrays, "lengths": mask.sum(-1)}


def of_llama(module, given):
    return ["--without-config", "--heads", str(configured(module, "num_attention_heads")), "--rotary-base",
            f"{configured(module, 'rope_theta'):g}", "--epsilon", f"{configured(module, 'rms_norm_eps'):g}"], ids_and_lengths(given)


def of_gpt(module, given):
    parts = list(module.modules())
    activations = [activation_of(part) for part in parts if isinstance(part, sys.modules["torch"].nn.GELU)]
    epsilons = [part.eps for part in parts if isinstance(part, sys.modules["torch"].nn.LayerNorm)] or [1e-5]
    return ["--heads", str(configured(module, "n_head", "num_attention_heads")), "--activation",
            (activations or ["gelu-tanh"])[0], "--epsilon", f"{epsilons[0]:g}"], ids_and_lengths(given)


# By the class of PyTorch: what attn run calls it, and what says its flags and inputs.
OF_PYTORCH = {"MultiheadAttention": ("multi-head-attention", of_attention), "TransformerEncoderLayer": ("encoder-layer", of_encoder),
              "TransformerEncoder": ("encoder", of_encoder), "TransformerDecoderLayer": ("decoder-layer", of_decoder),
              "TransformerDecoder": ("decoder", of_decoder), "Transformer": ("transformer", of_transformer),
              "GRU": ("gru", of_recurrent), "LSTM": ("lstm", of_recurrent), "LayerNorm": ("layer-norm", of_norm)}
# Whoever wrote it: the names of its weights say what it is.
BY_WEIGHTS = {r"h\.0\.attn\.c_attn\.weight": ("gpt", of_gpt), r"layers\.0\.self_attn\.q_proj\.weight": ("llama", of_llama)}
PUBLISHED = "model", of_published


def base_of(module):
    """PyTorch's own class that a module is of, or that its class is derived from, which says what it should compute."""
    return next((kind for kind in type(module).__mro__ if kind.__module__.startswith("torch.") and kind.__name__ in OF_PYTORCH), None)


def reference_of(module):
    """What attn run calls a module, and what says its flags and inputs; None where it does not have it, as far as can be seen."""
    base = base_of(module)
    if base is not None:
        return OF_PYTORCH[base.__name__]
    names, has_ids = module.state_dict().keys(), any("Embedding" in type(part).__name__ for part in module.modules())
    if type(module).__module__.startswith("transformers.models.") and has_config(module):
        return PUBLISHED if has_ids else None
    found = (reference for pattern, reference in BY_WEIGHTS.items()
             if has_ids and any(re.search(rf"(^|\.){pattern}$", name) for name in names))
    return next((PUBLISHED if has_config(module) else reference for reference in found), None)


ENCODER_LAYER = {"self_attn": "self_attn.output", "norm1": "norm1.output", "linear1": "feed_forward.hidden",
                 "dropout": "feed_forward.activated", "linear2": "feed_forward.output", "norm2": "norm2.output"}
DECODER_LAYER = {**ENCODER_LAYER, "multihead_attn": "cross_attn.output", "norm3": "norm3.output"}
LAYERS = {"TransformerEncoderLayer": ENCODER_LAYER, "TransformerDecoderLayer": DECODER_LAYER}


def steps_of_parts(module):
    """Which steps of attn's the parts of a module are: {"layers.{i}.norm1": "layers.{i}.norm1.output"}."""
    kind, steps = getattr(base_of(module), "__name__", ""), {}
    if kind in LAYERS:
        return LAYERS[kind]
    for name, part in module.named_children():
        if isinstance(part, sys.modules["torch"].nn.ModuleList):
            inner, name = {"": "output", **steps_of_parts(part[0])}, name + ".{i}"
        else:
            inner = {"": "output", **steps_of_parts(part)} if name in ("encoder", "decoder", "norm") else {}
        steps.update({joined(name, theirs): joined(name, ours) for theirs, ours in inner.items()})
    return steps if kind.startswith("Transformer") else {}


# Which steps further results are; the first is the output.
FURTHER = {"gru": {".1": "final_hidden"}, "lstm": {".1.0": "final_hidden", ".1.1": "final_cell"},
           "multi-head-attention": {".1": "average_weights"},
           "model": dict.fromkeys((".pooler_output", ".text_embeds", ".image_embeds"), "pooler.pooled")}


class Wanted:
    """What is asked about.

    module   the name of a module; True for the first that attn run has
    kind     what attn run calls it, where its class and weights do not tell
    rename   from its own names to those that attn run reads: of weights, with *, and of arguments
    ignore   weights and arguments that have no effect; * stands for others
    options  flags of attn run: {"heads": 4, "norm": "pre"}
    """

    def __init__(self, module=True, kind=None, rename=None, ignore=(), options=None):
        self.module, self.kind, self.rename = module, kind, dict(rename or {})
        self.ignore, self.options = [ignore] if isinstance(ignore, str) else list(ignore), dict(options or {})

    def ignores(self, name):
        return any(fnmatch.fnmatchcase(name, pattern) for pattern in self.ignore)

    def instead_of(self, flags):
        """Its own flags, and those that it does not have."""
        own, kept, is_kept = self.flags(), [], True
        for word in flags:
            is_kept = word not in own if word.startswith("--") else is_kept
            kept += [word] * is_kept
        return kept + own

    def flags(self):
        words = []
        for name, value in self.options.items():
            flag = "--" + name.replace("_", "-")
            words += [flag] if value is True else [] if value in (None, False) else [flag, str(value)]
        return words


# The arguments of a module of one's own, in their order.
INPUTS = {"attention": ("queries", "keys", "values"), "multi-head-attention": ("x", "memory", "value_memory"), "decoder": ("x", "memory"),
          "decoder-layer": ("x", "memory"), "transformer": ("source", "target"), "cross-entropy": ("logits", "targets"),
          "softmax": ("scores",)}


def inputs_in_order(kind, given, renamed):
    """Arguments that are renamed have their new name, "~mask" the opposite of a truth; the others are the module's inputs in turn."""
    arrays, free = {}, iter(INPUTS.get(kind, ("x",)))
    for name in [name for name in given.left if kind_of(given.values[name]) is not None]:
        is_mask = "bool" in str(given.values[name].dtype)
        new = name if name in renamed else None if is_mask else next(free, None)
        if new:
            array = given.array(name)
            arrays[new.lstrip("~")] = ~array.astype(bool) if new.startswith("~") else array
    return arrays


def of_kind(wanted):
    """Where somebody says which reference a module has."""

    def read(_, given):
        is_of_ids = wanted.kind in ("gpt", "llama", "model", "embedding")
        return wanted.flags(), ids_and_lengths(given) if is_of_ids else inputs_in_order(wanted.kind, given, wanted.rename.values())

    return wanted.kind, read


class Reference:
    """Keeps the weights and the input of the first module that attn run has, or of one that was asked for."""

    def __init__(self, path, wanted):
        self.path = os.path.splitext(path)[0]
        self.wanted = wanted if isinstance(wanted, Wanted) else Wanted(wanted)
        self.call = None  # of the module that was taken
        self.asked = None  # the call whose results are asked about: that one, or the outermost around it
        self.is_known = False
        self.line = self.config = self.reason = None
        self.averages = False  # of heads' weights, which are a result
        self.steps, self.known = {}, {}  # modules that are known, by their scopes, but for parts of others
        self.commands = None  # that compare with the reference

    def offer(self, running, call, values):
        """Hears of each module that is called, the outer ones first.

        call    of the module, from outside
        values  its arguments by name
        """
        is_part = running.holder(lambda other: other.object in self.known.values()) is not None
        is_wanted = running.scope == self.wanted.module or self.wanted.module is True and not is_part
        reference = of_kind(self.wanted) if self.wanted.kind and is_wanted else None if is_part and not is_wanted else reference_of(
            running.object)
        if reference and not is_part:
            self.known[running.scope] = running.object
        if self.is_known or not is_wanted:
            return
        is_small = reference == OF_PYTORCH["LayerNorm"] and self.wanted.module is True
        if self.call is None or reference is not None and not is_small:
            self.take(running, call, values, reference)

    def take(self, running, call, values, reference):
        module = running.object
        self.call, self.scope, self.inside = call, running.scope, running.inside
        self.asked = call.outermost() if self.wanted.module is True else call
        self.kind, self.is_known = type(module).__name__, reference is not None
        self.line = self.config = self.reason = None
        self.inputs = {name + path: numbers_of(leaf) for name, value in values.items() for path, leaf in leaves_of(value)}
        self.weights = self.as_attn_reads(weights_of(module))
        self.drops = module.training and any(getattr(part, "p", 0) or isinstance(getattr(part, "dropout", None), float) and part.dropout
                                             for part in module.modules())
        given = Given({self.wanted.rename.get(name, name): value for name, value in values.items() if not self.wanted.ignores(name)})
        try:
            if reference is None:
                raise NoReference("attn run has no such module, as far as can be told from its class and the names of its weights")
            name, read = reference
            flags, self.inputs = read(module, given)
            given.expect_none_left(name)
            self.config = config_of(module) if name == "model" else None
            self.line = ["attn", "run", name, *(flags if self.wanted.kind else self.wanted.instead_of(flags))]
        except NoReference as reason:
            self.reason = str(reason)
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
            self.reason = f"it is not as {reference[0]} needs it: {type(error).__name__}: {error}"
        self.is_found_by_numbers = given.is_swapped or self.line and self.line[2] in ("gpt", "llama", "model")  # no name says in which order
        if self.line and not self.is_found_by_numbers:
            self.steps = {joined(running.inside, part): step for part, step in steps_of_parts(module).items()}

    def returned(self, call, names):
        """Hears how the results of a call are called in the recording, by where they are in what it returned."""
        if call is not self.call or not self.line or not names:
            return
        further = FURTHER.get(self.line[2], {})
        self.averages = "average_weights" in further.values() and names.keys() >= further.keys()
        if self.averages and call.named.get("average_attn_weights", True) is False:
            self.averages, further = False, {}
            self.steps[names[".1"] + "[..., {h}, :, :]"] = "head.{h}.weights"
        if not self.is_found_by_numbers:
            self.steps[next(iter(names.values()))] = "output"
        self.steps.update((name, further[path]) for path, name in names.items() if path in further)

    def checked(self):
        """What is compared, for people."""
        base, name = base_of(self.call.module), " ".join(self.line[2:3])
        kind = f"{self.kind}, as its base class {base.__name__}" if base and base.__name__ != self.kind else f"{self.kind}, by attn run {name}"
        if self.asked is self.call:
            return kind
        more = f", 1 of {len(self.known)} modules that are known" if len(self.known) > 1 else ", the only module that is known"
        return f"{self.scope} of {type(self.asked.module).__name__}{more}"

    def unused(self):
        return [name for name in self.asked.unused_by(self.call) if not self.wanted.ignores(name)]

    def as_attn_reads(self, weights):
        return {name: numbers_of(tensor) for name, tensor in weights.items() if not self.wanted.ignores(name)}

    def write_weights(self, weights, path):
        """@return the file, or the folder with its configuration"""
        if not self.config:
            write_arrays(path + ".weights.npz", weights)
            return path + ".weights.npz"
        folder = path + ".model"
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            file.write(self.config)
        write_arrays(os.path.join(folder, "model.npz"), weights)
        return folder

    def run_with(self, weights, path):
        """What computes it with other weights. @return the words, and where the trace will be"""
        words = list(self.commands[0])
        trace = path + ".reference.npz"
        words[words.index("--weights") + 1], words[words.index("--trace") + 1] = self.write_weights(weights, path), trace
        return words, trace

    def write(self, names):
        """names: of the recorded arrays. @return lines for people"""
        if self.call is None:
            module = "module of PyTorch" if self.wanted.module is True else f"module {self.wanted.module}"
            return [f"there is no reference: no {module} was called"]
        inputs, trace = (f"{self.path}.{what}.npz" for what in ("input", "reference"))
        weights = self.write_weights(self.weights, self.path)
        write_arrays(inputs, {name: array for name, array in self.inputs.items() if array is not None})
        if self.line is None:
            return [f"{self.kind}: weights are in {weights}, inputs in {inputs}; which reference it has is for you to say: {self.reason}"]
        lines = [f"{self.kind}: dropout is on, which attn run has not: call eval()"] if self.drops else []
        if self.asked is not self.call:
            lines.append(f"checked is {self.checked()}")
        renames = [word for old, new in self.wanted.rename.items() if any(fnmatch.fnmatchcase(name, old) for name in self.weights)
                   for word in ("--rename", f"{old}={new}")]
        run = [*self.line, *renames, "--input", inputs, "--weights", weights, "--quiet", "--trace", trace]
        maps = [word for name, step in self.steps.items() if is_among(name, names) for word in ("--map", f"{name}={step}")]
        diff = ["attn", "diff", trace, self.path + ".npz", *maps, "--diagnose"]
        self.commands = run, diff
        return [*lines, "compare with", "  " + shlex.join(run), "  " + shlex.join(diff)]


def is_among(pattern, names):
    wanted = re.compile(re.sub(r"\\\{\w+\\\}", r"\\d+", re.escape(pattern.split("[")[0])))
    return any(wanted.fullmatch(name) for name in names)


def write_arrays(path, arrays):
    new = New(path)
    try:
        np.savez(new.out, **arrays)
        new.put_in_place()
    finally:
        new.drop()
