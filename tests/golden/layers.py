"""Makes the golden of the layers: every step of multi-head attention, encoder layers and encoders.

Each case is a module of PyTorch with fixed weights, computed once more by PyTorch's own operations, a step at a time,
in the order of the traces. The steps have to end in what the module itself gives, in training and in evaluation.
What PyTorch has no module for is computed as its authors do: rotary positions by complex numbers (Su et al. 2021) or by
rotate_half (Hugging Face's Llama), ALiBi by the slopes of Press et al. 2022, which the module takes as a float mask.

The cases are called FUNCTION.WHAT.HOW.INPUT.MASK: multi_head.cross.h2.batch.padding. HOW is the number of heads or, of an
encoder, the activation; INPUT is sequence or batch. See case.py for what a case is.
"""

import functools
import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import case
from case import flags, within

ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "gelu_tanh": functools.partial(F.gelu, approximate="tanh")}
INFINITY = float("inf")


def numbers(*shape, **of):
    return torch.from_numpy(case.numbers(*shape, **of))


def expect(found, expected, starved=None):
    """Equal, but for queries that can attend to nothing: PyTorch's module may make NaN of those, and only of those."""
    undefined = torch.isnan(expected).any(dim=-1)
    if starved is not None:
        assert not (undefined & ~starved).any(), "PyTorch makes NaN of a query that can attend to something"
        found, expected = found[~undefined], expected[~undefined]
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def inside(prefix, weights):
    """The tensors of a part of a module, by their names in the part."""
    return {name[len(prefix):]: array for name, array in weights.items() if name.startswith(prefix)}  # fmt: skip


def with_numbers(module, seed):
    """The module in float64, with fixed weights of about the size of trained ones, gains around one."""
    module = module.double()
    state = {}
    for i, (name, array) in enumerate(module.state_dict().items()):
        is_gain = "norm" in name and name.endswith("weight")
        state[name] = numbers(*array.shape, seed=seed + i, scale=0.25 if array.dim() == 1 else 0.5) + is_gain
    module.load_state_dict(state, strict=True)
    return module


def outputs(module, *arguments, **options):
    """What the module gives in training and in evaluation, with gradients and without, which is another program."""
    for is_training, has_gradients in ((True, True), (False, True), (False, False)):
        module.train(is_training)
        with torch.set_grad_enabled(has_gradients):
            result = module(*arguments, **options)
        yield result


# -------------------------------------------------------------------------------------------------------------- masks


class Masking:
    """Which pairs are allowed: the steps of it, and the same as PyTorch's modules want it."""

    def __init__(self, kind, n, m, sequences):
        self.n, self.m, self.sequences = n, m, sequences
        self.given = self.causal = self.padding = None
        self.steps = {}
        if kind in ("given", "joined"):
            shape = (n, m) if sequences is None else (sequences, n, m)
            self.given = torch.from_numpy(np.random.RandomState(90 + n).random_sample(shape) < 0.7)
            self.given[..., 0] = True
            self.steps["mask" if kind == "given" else "given_mask"] = self.given
        if kind in ("causal", "both", "joined"):
            self.causal = torch.ones(n, m, dtype=torch.bool).tril(m - n)  # bottom-right: the last query sees every key
            self.steps["causal"] = self.causal
        if kind in ("padding", "both", "joined", "starved"):
            lengths = torch.tensor([m, max(1, m - 2), 1 if kind != "starved" else 0][-sequences:])
            self.padding = torch.arange(m) < lengths[:, None]
            self.steps |= {"lengths": lengths, "padding": self.padding}
        self.allowed = self._joined()
        if self.allowed is not None:
            self.steps["mask"] = self.allowed
        self.flag = None if self.causal is None else "causal"

    def input(self, mask="mask", lengths="lengths"):
        """What a file has of it, under these names."""
        given = {mask: self.given, lengths: self.steps.get("lengths")}
        return {name: array for name, array in given.items() if array is not None}

    def _joined(self):
        padding = None if self.padding is None else self.padding[:, None, :].expand(-1, self.n, -1)
        parts = [part for part in (self.given, self.causal, padding) if part is not None]
        return functools.reduce(torch.logical_and, parts) if parts else None

    def starved(self, output):
        """The tokens of an output that could attend to nothing."""
        nothing = torch.zeros((), dtype=torch.bool) if self.allowed is None else ~self.allowed.any(dim=-1)
        return nothing.expand(output.shape[:-1])

    def forbidden(self, heads, bias=None):
        """PyTorch's attn_mask and key_padding_mask: true, or minus infinity, where a query may **not** attend.

        @param bias  (n, m) or (h, n, m), added to the scores
        """
        pairs = [part for part in (self.given, self.causal) if part is not None]
        attn_mask = ~functools.reduce(torch.logical_and, pairs) if pairs else None
        if attn_mask is not None and attn_mask.dim() == 3:
            attn_mask = attn_mask.repeat_interleave(heads, dim=0)
        if bias is not None:
            bias = bias if bias.dim() == 2 or self.sequences is None else bias.repeat(self.sequences, 1, 1)
            attn_mask = bias if attn_mask is None else bias.masked_fill(attn_mask, -INFINITY)
        return attn_mask, None if self.padding is None else ~self.padding


# ---------------------------------------------------------------------------------------------------------- positions


def rotate_half(x):
    return torch.cat([-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]], dim=-1)


def turned_pairs(x, angles):
    """Features 2i and 2i + 1 are the parts of a complex number, which is multiplied by e^(i angle)."""
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
    return torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).flatten(-2)


def turned_halves(x, angles):
    twice = torch.cat([angles, angles], dim=-1)
    return x * twice.cos() + rotate_half(x) * twice.sin()


def sinusoids(n, d, base=10000.0, halves=False):
    """By the real and imaginary parts of exp(i p / base^(2j/d))."""
    frequencies = base ** (-2 * np.arange((d + 1) // 2) / d)
    angles = np.arange(n)[:, None] * frequencies
    turned = np.exp(1j * angles)
    if halves:
        positions = np.concatenate([turned.imag, turned.real], axis=1)[:, :d]
    else:
        positions = np.stack([turned.imag, turned.real], axis=-1).reshape(n, -1)[:, :d]
    return {"frequencies": frequencies, "angles": angles, "positions": positions}


def rotary(x, layout):
    n, d = x.shape[-2:]
    frequencies = 1 / 10000 ** (torch.arange(0, d, 2, dtype=torch.float64) / d)
    angles = torch.outer(torch.arange(n, dtype=torch.float64), frequencies)
    to_halves = torch.cat([torch.arange(0, d, 2), torch.arange(1, d, 2)])
    expect(turned_pairs(x, angles)[..., to_halves], turned_halves(x[..., to_halves], angles))  # but for their order
    output = (turned_pairs if layout == "pairs" else turned_halves)(x, angles)
    return {"x": x, "frequencies": frequencies, "angles": angles, "output": output}


def alibi_slopes(heads):
    power = 2 ** math.floor(math.log2(heads))
    geometric = lambda h: [(2 ** (-8 / h)) ** (i + 1) for i in range(h)]
    return geometric(power) if power == heads else geometric(power) + geometric(2 * power)[0::2][: heads - power]


def alibi_biases(heads, n, m):
    """One a head: the last query stands where the last key does."""
    distances = (torch.arange(n)[:, None] + (m - n) - torch.arange(m)).abs()
    return [-slope * distances for slope in alibi_slopes(heads)]


# ---------------------------------------------------------------------------------------------------------- functions


def linear(role, output, x, weight, bias):
    """PyTorch's weight is (out, in), ours its transpose."""
    learned = {f"{role}_weights": weight.T} | ({} if bias is None else {f"{role}_bias": bias})
    return learned | {output: F.linear(x, weight, bias)}


def mapped(steps, x, name, weights, output=None):
    """A linear map, whose weight and bias stand in `weights` as (in, out)."""
    steps[f"{name}_weights"] = weights["weight"]
    result = x @ weights["weight"]
    if "bias" in weights:
        steps[f"{name}_bias"] = weights["bias"]
        result = result + weights["bias"]
    steps[output or name] = result
    return result


def layer_norm(x, weights):
    mean, variance = x.mean(dim=-1), x.var(dim=-1, unbiased=False)
    normalized = (x - mean[..., None]) / torch.sqrt(variance[..., None] + 1e-5)
    output = normalized * weights["weight"] + weights["bias"]
    expect(output, F.layer_norm(x, x.shape[-1:], weights["weight"], weights["bias"]))
    learned = {"gain": weights["weight"], "bias": weights["bias"]}
    return {"x": x, "mean": mean, "variance": variance, "normalized": normalized} | learned | {"output": output}


def feed_forward(x, weights, activation):
    steps = {"x": x} | linear("hidden", "hidden", x, weights["linear1.weight"], weights["linear1.bias"])
    steps["activated"] = ACTIVATIONS[activation](steps["hidden"])
    return steps | linear("output", "output", steps["activated"], weights["linear2.weight"], weights["linear2.bias"])


def attend(steps, allowed, shared_bias):
    """The steps of scaled dot-product attention after the queries, keys and values."""
    scores = steps["queries"] @ steps["keys"].transpose(-1, -2)
    scaled = scores / math.sqrt(steps["keys"].shape[-1])
    steps |= {"scores": scores, "scaled": scaled}
    bias = steps.get("bias", shared_bias)
    if bias is not None:
        steps["biased"] = scaled = scaled + bias
    if allowed is not None:
        steps["masked"] = scaled = scaled.masked_fill(~allowed, -INFINITY)
    if "sinks" in steps:
        steps["sink_scores"] = column = steps["sinks"].expand(*scaled.shape[:-1], 1)
        steps["with_sink"] = torch.cat([scaled, column], dim=-1)
        steps["all_weights"] = torch.softmax(steps["with_sink"], dim=-1)
        steps["weights"] = steps["all_weights"][..., :-1]
    else:
        steps["weights"] = torch.softmax(scaled, dim=-1).nan_to_num(0.0)  # PyTorch: NaN where nothing is allowed
    steps["context"] = steps["weights"] @ steps["values"]
    return steps


def one_head(shares, positions):
    """A head's queries, keys and values, turned where positions are rotary."""
    if not positions.startswith("rotary"):
        return dict(shares)
    steps = {}
    for role, scope in (("queries", "rotary_query"), ("keys", "rotary_key")):
        turned = rotary(shares[role], positions.split("_")[1])
        steps |= within(scope, turned) | {role: turned["output"]}
    return steps | {"values": shares["values"]}


def in_projections(weights):
    """Packed where queries, keys and values have as many features, else one by one."""
    if "in_proj_weight" in weights:
        maps = weights["in_proj_weight"].chunk(3)
    else:
        maps = [weights[f"{role}_proj_weight"] for role in "qkv"]
    return zip(maps, weights["in_proj_bias"].chunk(3) if "in_proj_bias" in weights else [None] * 3)


def multi_head(sources, weights, heads, allowed=None, bias=None, positions="none"):
    """@param sources  x, or x and memory, or x, memory and value_memory"""
    steps = dict(sources)
    given = list(sources.values())
    for role, x, (weight, offset) in zip(("query", "key", "value"), given + given[-1:] * 2, in_projections(weights)):
        steps |= linear(role, role, x, weight, offset)
    if bias is not None:
        steps["bias"] = bias
    if "sinks" in weights:
        steps["sinks"] = weights["sinks"]
    shares = [steps[role].chunk(heads, dim=-1) for role in ("query", "key", "value")]
    slanted = alibi_biases(heads, steps["query"].shape[-2], steps["key"].shape[-2])
    contexts = []
    for head, share in enumerate(zip(*shares)):
        of_head = one_head(dict(zip(("queries", "keys", "values"), share)), positions)
        if positions == "alibi":
            of_head["bias"] = slanted[head]
        if "sinks" in weights:
            of_head["sinks"] = weights["sinks"][head : head + 1]
        of_head = attend(of_head, allowed, bias)
        contexts.append(of_head["context"])
        steps |= within(f"head.{head}", of_head)
    steps["merged"] = torch.cat(contexts, dim=-1)
    return steps | linear("output", "output", steps["merged"], weights["out_proj.weight"], weights.get("out_proj.bias"))


def encoder_layer(x, weights, placement, activation, heads, allowed):
    steps = {"x": x}

    def add(scope, part):
        steps.update(within(scope, part))
        return part["output"]

    attend_to = lambda y: add("self_attn", multi_head({"x": y}, inside("self_attn.", weights), heads, allowed))
    feed = lambda y: add("feed_forward", feed_forward(y, weights, activation))
    norm = lambda scope, y: add(scope, layer_norm(y, inside(f"{scope}.", weights)))
    if placement == "post":
        steps["residual1"] = x + attend_to(x)
        between = norm("norm1", steps["residual1"])
        steps["residual2"] = between + feed(between)
        steps["output"] = norm("norm2", steps["residual2"])
    else:
        steps["residual1"] = x + attend_to(norm("norm1", x))
        steps["output"] = steps["residual1"] + feed(norm("norm2", steps["residual1"]))
    return steps


def encoder(x, weights, layers, placement, activation, heads, allowed):
    steps, tokens = {"x": x}, x
    for i in range(layers):
        of_layer = encoder_layer(tokens, inside(f"layers.{i}.", weights), placement, activation, heads, allowed)
        steps |= within(f"layers.{i}", of_layer)
        tokens = of_layer["output"]
    if "norm.weight" in weights:
        of_norm = layer_norm(tokens, inside("norm.", weights))
        steps |= within("norm", of_norm)
        tokens = of_norm["output"]
    return steps | {"output": tokens}


# -------------------------------------------------------------------------------------------------------------- cases


def sizes_of(form):
    return (None, ()) if form == "sequence" else (3, (3,))


def multi_head_case(
    form, mask, heads, d_model=6, n=4, m=None, kdim=None, vdim=None, biased=True, added=False, positions="none"
):
    sequences, batch = sizes_of(form)
    masking = Masking(mask, n, m or n, sequences)
    module = nn.MultiheadAttention(d_model, heads, bias=biased, kdim=kdim, vdim=vdim, batch_first=True)
    module = with_numbers(module, seed=100 * heads + d_model)
    sources = {"x": numbers(*batch, n, d_model, seed=n)}
    if m is not None:
        sources["memory"] = numbers(*batch, m, kdim or d_model, seed=20 + m)
    if vdim != kdim:
        sources["value_memory"] = numbers(*batch, m, vdim, seed=40 + m)
    biases = {"bias": numbers(n, m or n, seed=60)} if added else {}
    bias = biases.get("bias")
    steps = multi_head(sources, module.state_dict(), heads, masking.allowed, bias, positions)
    if not positions.startswith("rotary"):
        by_heads = torch.stack(alibi_biases(heads, n, m or n)) if positions == "alibi" else bias
        expect_module(module, sources, steps, masking, heads, by_heads)
    kind, _, layout = positions.partition("_")
    run = "multi-head-attention" + flags(heads=heads, mask=masking.flag, positions=kind, rotary_layout=layout or None)
    return run, sources | masking.input() | biases, sources | masking.steps | biases | steps, module.state_dict()


def expect_module(module, sources, steps, masking, heads, bias):
    """The output of nn.MultiheadAttention, and the weights of each head."""
    given = list(sources.values())
    attn_mask, key_padding_mask = masking.forbidden(heads, bias)
    asked = {"attn_mask": attn_mask, "key_padding_mask": key_padding_mask, "average_attn_weights": False}
    starved = masking.starved(steps["output"])
    for output, weights in outputs(module, *(given + given[-1:] * 2)[:3], need_weights=True, **asked):
        expect(steps["output"], output, starved)
        for head in range(heads):
            expect(steps[f"head.{head}.weights"], weights[..., head, :, :], starved)
    for output, _ in outputs(module, *(given + given[-1:] * 2)[:3], need_weights=False, **asked):
        if not starved.any():  # its way without weights and gradients makes other numbers of nothing
            expect(steps["output"], output)


def new_layer(d_model, heads, d_ff, placement, activation):
    bend = activation if activation != "gelu_tanh" else ACTIVATIONS["gelu_tanh"]  # by name, there may be a faster way
    options = {"dropout": 0, "activation": bend, "batch_first": True, "norm_first": placement == "pre"}
    return nn.TransformerEncoderLayer(d_model, heads, d_ff, **options)


def expect_encoder(module, x, output, masking, heads, mask_name):
    attn_mask, key_padding_mask = masking.forbidden(heads)
    starved = masking.starved(output)
    for i, found in enumerate(outputs(module, x, **{mask_name: attn_mask}, src_key_padding_mask=key_padding_mask)):
        if i == 0 or not starved.any():
            expect(output, found, starved)


def layer_flags(heads, placement, activation, masking):
    return flags(heads=heads, norm=placement, activation=activation.replace("_", "-"), mask=masking.flag)


def encoder_layer_case(placement, activation, form, mask, d_model, heads, d_ff=5, n=4):
    sequences, batch = sizes_of(form)
    masking = Masking(mask, n, n, sequences)
    module = with_numbers(new_layer(d_model, heads, d_ff, placement, activation), seed=200 + d_model)
    x = numbers(*batch, n, d_model, seed=n)
    steps = encoder_layer(x, module.state_dict(), placement, activation, heads, masking.allowed)
    expect_encoder(module, x, steps["output"], masking, heads, "src_mask")
    run = "encoder-layer" + layer_flags(heads, placement, activation, masking)
    return run, {"x": x} | masking.input(), {"x": x} | masking.steps | steps, module.state_dict()


def encoder_case(placement, activation, form, mask, layers=6, d_model=6, heads=2, d_ff=5, n=4):
    sequences, batch = sizes_of(form)
    masking = Masking(mask, n, n, sequences)
    norm = nn.LayerNorm(d_model) if placement == "pre" else None
    layer = new_layer(d_model, heads, d_ff, placement, activation)
    module = with_numbers(nn.TransformerEncoder(layer, layers, norm, enable_nested_tensor=False), seed=300)
    x = numbers(*batch, n, d_model, seed=n)
    steps = encoder(x, module.state_dict(), layers, placement, activation, heads, masking.allowed)
    expect_encoder(module, x, steps["output"], masking, heads, "mask")
    run = "encoder" + layer_flags(heads, placement, activation, masking)
    return run, {"x": x} | masking.input(), {"x": x} | masking.steps | steps, module.state_dict()


MULTI_HEAD = {
    "self.h2": ("sequence.all sequence.causal sequence.given batch.padding batch.both batch.joined batch.starved", {}),
    "self_odd.h3": ("batch.both", {"d_model": 9, "n": 5}),
    "self_one_head.h1": ("sequence.all batch.padding", {"d_model": 5, "n": 7}),
    "self_one_token.h2": ("sequence.causal batch.all", {"n": 1}),
    "self_unbiased.h2": ("sequence.all", {"biased": False}),
    "self_bias.h2": ("sequence.causal batch.padding", {"added": True}),
    "cross.h2": ("sequence.causal batch.both", {"n": 3, "m": 5}),
    "cross_wide.h1": ("batch.padding", {"n": 3, "m": 4, "kdim": 7, "vdim": 7}),
    "cross_one_key.h2": ("sequence.all", {"n": 3, "m": 1}),
    "values.h3": ("sequence.all batch.both", {"n": 2, "m": 5, "kdim": 5, "vdim": 7}),
    "values_unbiased.h2": ("batch.padding", {"n": 3, "m": 4, "kdim": 3, "vdim": 6, "biased": False}),
    "rotary_pairs.h2": ("sequence.all batch.both", {"d_model": 8, "positions": "rotary_pairs"}),
    "rotary_halves.h2": ("sequence.causal batch.padding", {"d_model": 8, "positions": "rotary_halves"}),
    "rotary_pairs_cross.h1": ("sequence.causal", {"n": 3, "m": 5, "positions": "rotary_pairs"}),
    "alibi.h2": ("sequence.causal batch.both", {"positions": "alibi"}),
    "alibi.h3": ("sequence.all", {"positions": "alibi"}),
    "alibi.h6": ("batch.padding", {"n": 3, "positions": "alibi"}),
    "alibi_cross.h2": ("sequence.causal", {"n": 2, "m": 5, "positions": "alibi"}),
}
ENCODER_LAYER = {
    "relu": ("sequence.causal batch.both", {"d_model": 6, "heads": 2}),
    "gelu": ("sequence.causal batch.both", {"d_model": 7, "heads": 1, "d_ff": 3}),
    "gelu_tanh": ("sequence.all batch.padding", {"d_model": 9, "heads": 3, "n": 3}),
}
ENCODER = ["post.relu.sequence.causal", "pre.gelu.batch.both"]


def positions_case(n, d, base=10000.0, layout="interleaved"):
    x = numbers(n, d, seed=70 + d)
    steps = {"x": x} | sinusoids(n, d, base, layout == "halves")
    return f"positions{flags(base=base, layout=layout)}", {"x": x}, steps | {"output": x + torch.from_numpy(steps["positions"])}


def all_cases():
    """Each case after its name: what it is run with, its input, its steps and its weights."""
    for name, (forms, options) in MULTI_HEAD.items():
        for form in forms.split():
            heads = int(name.split(".h")[1])
            yield f"multi_head.{name}.{form}", *multi_head_case(*form.split("."), heads, **options)
    for placement in ("post", "pre"):
        for activation, (forms, options) in ENCODER_LAYER.items():
            for form in forms.split():
                of = encoder_layer_case(placement, activation, *form.split("."), **options)
                yield f"encoder_layer.{placement}.{activation}.{form}", *of
    yield "encoder_layer.post.relu.batch.starved", *encoder_layer_case("post", "relu", "batch", "starved", d_model=6, heads=2)
    yield "encoder_layer.pre.gelu.sequence.all", *encoder_layer_case("pre", "gelu", "sequence", "all", d_model=4, heads=4, n=1)
    for name in ENCODER:
        yield f"encoder.{name}", *encoder_case(*name.split("."))
    yield "sinusoidal_positions.even", *positions_case(4, 4)
    yield "sinusoidal_positions.odd", *positions_case(4, 5, base=100.0)
    yield "sinusoidal_positions.halves", *positions_case(4, 4, layout="halves")


def layers():
    """Every case, step by step."""
    golden = {}
    for of in all_cases():
        golden |= case.case(*of)
    return golden
