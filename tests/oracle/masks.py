#!/usr/bin/env python3
"""Runs every module of attn that takes a mask on drawn masks, in every form, and compares with PyTorch.

    masks.py ATTN_PROGRAM [--masks COUNT] [--seed SEED]

Sizes are small, so that two forms often have the same shape: such a mask has to be refused as ambiguous, and no other one.
A mask holds booleans, ones and zeros, zeros and minus infinities, or numbers that are added to the scores.

A line a module: how many masks were right, and how many were refused. Exit code 0 where none was wrong, 1 where one was, 77
where there is no PyTorch.
"""

import argparse
import dataclasses
import itertools
import math
import random
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
    import torch
    from torch import nn
except ImportError:
    print("masks.py: skipped, there is no PyTorch")
    sys.exit(77)

torch.manual_seed(1)
torch.set_default_dtype(torch.float64)

# ------------------------------------------------------------------------------------------------------- masks as saved

FORMS = ["m", "n m", "b m", "b n m", "h n m", "bh n m", "b h n m"]
HIDING = ["boolean", "ones", "infinite"]  # all that layers in float32 and learned scores take
KINDS = HIDING + ["added"]


@dataclasses.dataclass
class Sizes:
    """Of a mask: b is 0 for a single sequence, h is 0 where there are no heads."""

    b: int
    h: int
    n: int
    m: int

    def of(self, axis):
        return math.prod(max(1, getattr(self, letter)) for letter in axis)


def forms(sizes):
    """The forms that a mask can have. All four axes are always possible."""
    def fits(axes):
        return len(axes) == 4 or ((sizes.b or "b" not in "".join(axes)) and (sizes.h or "h" not in "".join(axes)))

    return [axes for axes in (form.split() for form in FORMS) if fits(axes)]


def placed(axes, shape, sizes):
    """The shape (b, h, n, m) of a mask whose axes are these, or nothing where its shape is not of these axes."""
    if len(axes) != len(shape) or any(size not in (1, sizes.of(axis)) for axis, size in zip(axes, shape)):
        return None
    found = {letter: 1 if size == 1 else sizes.of(letter) for axis, size in zip(axes, shape) for letter in axis}
    return tuple(found.get(letter, 1) for letter in "bhnm")


def is_ambiguous(shape, sizes):
    return len({placed(axes, shape, sizes) for axes in forms(sizes)} - {None}) > 1


@dataclasses.dataclass
class Drawn:
    """A mask as it is saved, and what it adds to the scores of each pair, (b, h, n, m)."""

    saved: np.ndarray
    added: torch.Tensor
    form: str
    is_ambiguous: bool
    padding: torch.Tensor = None  # (b, m), true where a key is hidden: only where that is all the mask says


def draw_mask(draw, sizes, kinds):
    axes = draw.choice(forms(sizes))
    shape = [1 if axis != "bh" and draw.random() < 0.15 else sizes.of(axis) for axis in axes]
    allowed = np.array([draw.random() < 0.6 for _ in range(math.prod(shape))]).reshape(shape)
    for row in allowed.reshape(-1, shape[-1]):  # PyTorch has NaN where a query can attend to nothing
        row[draw.randrange(len(row))] = True
    kind = draw.choice(kinds)
    numbers = np.array([draw.uniform(-2, 2) for _ in range(allowed.size)]).reshape(shape)
    added = np.where(allowed, numbers if kind == "added" else 0.0, -np.inf)
    saved = {"boolean": allowed, "ones": allowed.astype(np.int64), "infinite": added, "added": added}[kind]
    whole = torch.from_numpy(added.reshape(placed(axes, shape, sizes)))
    whole = whole.expand(*(max(1, size) for size in dataclasses.astuple(sizes))).clone()
    is_padding = axes == ["b", "m"] and kind != "added"
    return Drawn(saved, whole, f"({', '.join(axes)}) {kind}", is_ambiguous(tuple(shape), sizes),
                 torch.isinf(whole[:, 0, 0]) if is_padding else None)  # fmt: skip


# ------------------------------------------------------------------------------------------------------------- running


def run(program, module, inputs, weights, flags):
    """The step output of attn run, or what it says in its place."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        np.savez(path / "i.npz", **inputs)
        files = ["--input", path / "i.npz", "--trace", path / "t.npz"]
        if weights:
            np.savez(path / "w.npz", **{name: tensor.detach().numpy() for name, tensor in weights.items()})
            files += ["--weights", path / "w.npz"]
        ran = subprocess.run([program, "run", module, *files, "--quiet", *flags], capture_output=True, text=True)
        if ran.returncode != 0:
            return ran.stderr
        return np.load(path / "t.npz")["output"]


@dataclasses.dataclass
class Case:
    """What attn is called with, the masks among the inputs by name, and what PyTorch makes of them."""

    module: str
    inputs: dict
    masks: dict
    expected: torch.Tensor
    weights: dict = dataclasses.field(default_factory=dict)
    flags: list = dataclasses.field(default_factory=list)


# ------------------------------------------------------------------------------------------------------------- modules


def attend(queries, keys, values, added):
    return torch.softmax(queries @ keys.transpose(-2, -1) / math.sqrt(queries.shape[-1]) + added, -1) @ values


def split(x, heads):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


class Draw:
    """Draws sizes, numbers, and a case of a module."""

    def __init__(self, draw):
        self.draw = draw
        self.b, self.h, self.n, self.m = draw.choice([0, 1, 2, 2, 3]), *(draw.randint(1, 3) for _ in range(3))
        self.d = 4 * self.h

    def tensor(self, *shape):
        return torch.from_numpy(np.array([self.draw.gauss(0, 1) for _ in range(math.prod(shape))]).reshape(shape))

    def tokens(self, n, d=None):
        """A batch, of one sequence where there is only one."""
        return self.tensor(max(1, self.b), n, d or self.d)

    def given(self, batch):
        return (batch if self.b else batch[0]).numpy()

    def mask(self, n, m, h=None, kinds=KINDS):
        return draw_mask(self.draw, Sizes(self.b, self.h if h is None else h, n, m), kinds)

    def weights(self, module):
        module.eval()
        with torch.no_grad():
            for tensor in module.parameters():
                tensor.copy_(self.tensor(*tensor.shape) * 0.5 + (tensor.dim() == 1))
        return module.state_dict()

    # ---------------------------------------------------------------------------------------------- of ready heads

    def attention(self, flags=(), kinds=KINDS):
        b, n, m, mask = max(1, self.b), self.n, self.m, self.mask(self.n, self.m, 0, kinds)
        queries, keys, values = self.tokens(n), self.tokens(m), self.tokens(m, 3)
        inputs = {name: self.given(one) for name, one in zip(("queries", "keys", "values"), (queries, keys, values))}
        return Case("attention", inputs, {"mask": mask}, attend(queries, keys, values, mask.added[:, 0]), flags=list(flags))

    def attention_of_heads(self, flags=()):
        self.b = max(1, self.b)
        queries, keys = self.tensor(self.b, self.h, self.n, 4), self.tensor(self.b, self.h, self.m, 4)
        values, mask = self.tensor(self.b, self.h, self.m, 3), self.mask(self.n, self.m)
        inputs = {"queries": queries.numpy(), "keys": keys.numpy(), "values": values.numpy()}
        return Case("attention", inputs, {"mask": mask}, attend(queries, keys, values, mask.added), flags=list(flags))

    def attention_side_by_side(self, flags=()):
        queries, keys, values, mask = self.tokens(self.n), self.tokens(self.m), self.tokens(self.m), self.mask(self.n, self.m)
        inputs = {name: self.given(one) for name, one in zip(("queries", "keys", "values"), (queries, keys, values))}
        context = attend(*(split(one, self.h) for one in (queries, keys, values)), mask.added)
        return Case("attention", inputs, {"mask": mask}, context.transpose(1, 2).flatten(-2), flags=["--heads", str(self.h), *flags])

    def attention_of_shared_heads(self):
        """After a past, or without one."""
        self.b, groups, past = max(1, self.b), self.draw.randint(1, 2), self.draw.choice([0, 2])
        shared = self.draw.randint(1, 3)
        self.h = groups * shared
        queries, mask = self.tensor(self.b, self.h, self.n, 4), self.mask(self.n, self.m + past)
        keys, values = (self.tensor(self.b, groups, past + self.m, d) for d in (4, 3))
        inputs = {"queries": queries.numpy(), "keys": keys[:, :, past:].numpy(), "values": values[:, :, past:].numpy()}
        if past:
            inputs |= {"past_keys": keys[:, :, :past].numpy(), "past_values": values[:, :, :past].numpy()}
        keys, values = (one.repeat_interleave(shared, 1) for one in (keys, values))
        return Case("attention", inputs, {"mask": mask}, attend(queries, keys, values, mask.added))

    def attention_by_other_scores(self):
        self.b, score = 0, self.draw.choice(["dot", "bilinear", "additive"])
        queries, keys, values = self.tensor(self.n, 3), self.tensor(self.m, 3), self.tensor(self.m, 2)
        mask, weights = self.mask(self.n, self.m, 0, HIDING), {}
        if score == "bilinear":
            weights = {"bilinear_weights": self.tensor(3, 3)}
            scores = queries @ weights["bilinear_weights"] @ keys.T
        elif score == "additive":
            weights = {"query_weights": self.tensor(3, 4), "key_weights": self.tensor(3, 4), "score_weights": self.tensor(4)}
            hidden = (queries @ weights["query_weights"])[:, None] + keys @ weights["key_weights"]
            scores = torch.tanh(hidden) @ weights["score_weights"]
        else:
            scores = queries @ keys.T
        inputs = {"queries": queries.numpy(), "keys": keys.numpy(), "values": values.numpy()}
        expected = torch.softmax(scores + mask.added[0], -1) @ values
        return Case("attention", inputs, {"mask": mask}, expected, weights, ["--score", score])

    def with_bias(self, draw_case):
        """The same where what is added is an array of its own, which never holds ones that mean true."""
        draw_mask, self.mask = self.mask, lambda n, m, h=None: draw_mask(n, m, h, ["infinite", "added"])
        case = draw_case()
        case.masks = {"bias": case.masks["mask"]}
        return case

    def softmax(self):
        kinds = ["boolean", "ones", "infinite"]
        if self.draw.random() < 0.5:
            self.b = max(1, self.b)
            scores, mask = self.tensor(self.b, self.h, self.n, self.m), self.mask(self.n, self.m, kinds=kinds)
            return Case("softmax", {"scores": scores.numpy()}, {"mask": mask}, torch.softmax(scores + mask.added, -1))
        scores, mask = self.tokens(self.n, self.m), self.mask(self.n, self.m, 0, kinds)
        return Case("softmax", {"scores": self.given(scores)}, {"mask": mask}, torch.softmax(scores + mask.added[:, 0], -1))

    # ------------------------------------------------------------------------------------------------ with weights

    def masks_of(self, mask, name, padding_name):
        """As PyTorch's modules take them: (b * h, n, m), or a padding mask."""
        if mask.padding is not None:
            return {padding_name: mask.padding}
        return {name: mask.added.flatten(0, 1)}

    def multi_head_attention(self):
        module, is_cross = nn.MultiheadAttention(self.d, self.h, batch_first=True), self.draw.random() < 0.5
        x, memory = self.tokens(self.n), self.tokens(self.m)
        if not is_cross:
            memory = x
        weights, mask = self.weights(module), self.mask(self.n, memory.shape[1])
        expected = module(x, memory, memory, **self.masks_of(mask, "attn_mask", "key_padding_mask"))[0]
        inputs = {"x": self.given(x)} | ({"memory": self.given(memory)} if is_cross else {})
        return Case("multi-head-attention", inputs, {"mask": mask}, expected, weights, self.of_heads())

    def continued(self):
        """Multi-head attention after a past."""
        module, x, past = nn.MultiheadAttention(self.d, self.h, batch_first=True), self.tokens(self.n), self.draw.randint(1, 2)
        weights, mask = self.weights(module), self.mask(self.n, past + self.n)
        past_keys, past_values = self.tokens(past), self.tokens(past)
        queries, keys, values = (x @ weights["in_proj_weight"].T + weights["in_proj_bias"]).chunk(3, -1)
        keys, values = torch.cat([past_keys, keys], 1), torch.cat([past_values, values], 1)
        context = attend(*(split(one, self.h) for one in (queries, keys, values)), mask.added)
        inputs = {"x": self.given(x), "past_keys": self.given(past_keys), "past_values": self.given(past_values)}
        expected = module.out_proj(context.transpose(1, 2).flatten(-2))
        return Case("multi-head-attention", inputs, {"mask": mask}, expected, weights, self.of_heads())

    def talking_heads(self):
        module, x = nn.MultiheadAttention(self.d, self.h, batch_first=True), self.tokens(self.n)
        mask = self.mask(self.n, self.n, kinds=["boolean", "ones", "infinite"])
        weights = self.weights(module) | {"talking_scores": self.tensor(self.h, self.h), "talking_weights": self.tensor(self.h, self.h)}
        maps = x @ weights["in_proj_weight"].T + weights["in_proj_bias"]
        queries, keys, values = (split(part, self.h) for part in maps.chunk(3, -1))
        scores = queries @ keys.transpose(-2, -1) / math.sqrt(queries.shape[-1])
        mixed = torch.einsum("bhnm,hk->bknm", scores, weights["talking_scores"]) + mask.added
        mixed = torch.einsum("bhnm,hk->bknm", torch.softmax(mixed, -1), weights["talking_weights"])
        expected = module.out_proj((mixed @ values).transpose(1, 2).flatten(-2))
        return Case("talking-heads-attention", {"x": self.given(x)}, {"mask": mask}, expected, weights)

    def of_heads(self, *more):
        return ["--heads", str(self.h), *more]

    def layer_sizes(self):
        return {"d_model": self.d, "nhead": self.h, "dim_feedforward": 5, "batch_first": True}

    def encoder_layer(self, flags=(), kinds=KINDS):
        module, x = nn.TransformerEncoderLayer(**self.layer_sizes()), self.tokens(self.n)
        weights, mask = self.weights(module), self.mask(self.n, self.n, kinds=kinds)
        expected = module(x, **self.masks_of(mask, "src_mask", "src_key_padding_mask"))
        return Case("encoder-layer", {"x": self.given(x)}, {"mask": mask}, expected, weights, self.of_heads(*flags))

    def encoder(self, flags=(), kinds=KINDS):
        layer = nn.TransformerEncoderLayer(**self.layer_sizes())
        module, x = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), self.tokens(self.n)
        weights, mask = self.weights(module), self.mask(self.n, self.n, kinds=kinds)
        expected = module(x, **self.masks_of(mask, "mask", "src_key_padding_mask"))
        return Case("encoder", {"x": self.given(x)}, {"mask": mask}, expected, weights, self.of_heads(*flags))

    def decoder_masks(self, kinds=KINDS):
        """Of the target, of the memory, or both."""
        names = self.draw.choice([["mask"], ["memory_mask"], ["mask", "memory_mask"]])
        masks = {name: self.mask(self.n, self.n if name == "mask" else self.m, kinds=kinds) for name in names}
        torches = {}
        if "mask" in masks:
            torches |= self.masks_of(masks["mask"], "tgt_mask", "tgt_key_padding_mask")
        if "memory_mask" in masks:
            torches |= self.masks_of(masks["memory_mask"], "memory_mask", "memory_key_padding_mask")
        return masks, torches

    def of_decoder(self, name, module, flags=(), kinds=KINDS):
        x, memory, weights = self.tokens(self.n), self.tokens(self.m), self.weights(module)
        masks, torches = self.decoder_masks(kinds)
        inputs = {"x": self.given(x), "memory": self.given(memory)}
        return Case(name, inputs, masks, module(x, memory, **torches), weights, self.of_heads(*flags))

    def decoder_layer(self, flags=(), kinds=KINDS):
        return self.of_decoder("decoder-layer", nn.TransformerDecoderLayer(**self.layer_sizes()), flags, kinds)

    def decoder(self):
        return self.of_decoder("decoder", nn.TransformerDecoder(nn.TransformerDecoderLayer(**self.layer_sizes()), 2))

    def transformer(self):
        module = nn.Transformer(**self.layer_sizes(), num_encoder_layers=1, num_decoder_layers=1)
        source, target, weights = self.tokens(self.m), self.tokens(self.n), self.weights(module)
        masks, torches = self.decoder_masks()
        masks = {{"mask": "target_mask"}.get(name, name): mask for name, mask in masks.items()}
        if self.draw.random() < 0.6:
            masks["source_mask"] = self.mask(self.m, self.m)
            torches |= self.masks_of(masks["source_mask"], "src_mask", "src_key_padding_mask")
        inputs = {"source": self.given(source), "target": self.given(target)}
        return Case("transformer", inputs, masks, module(source, target, **torches), weights, self.of_heads())


MODULES = {
    "attention": lambda draw: draw.attention(),
    "attention of heads": lambda draw: draw.attention_of_heads(),
    "attention --heads": lambda draw: draw.attention_side_by_side(),
    "attention of shared heads": lambda draw: draw.attention_of_shared_heads(),
    "attention of heads, bias": lambda draw: draw.with_bias(draw.attention_of_heads),
    "attention --score": lambda draw: draw.attention_by_other_scores(),
    "attention --fast": lambda draw: draw.attention(["--fast"]),
    "attention of heads --fast": lambda draw: draw.attention_of_heads(["--fast"]),
    "attention --heads --fast": lambda draw: draw.attention_side_by_side(["--fast"]),
    "softmax": lambda draw: draw.softmax(),
    "multi-head-attention": lambda draw: draw.multi_head_attention(),
    "multi-head-attention, bias": lambda draw: draw.with_bias(draw.multi_head_attention),
    "multi-head-attention, past": lambda draw: draw.continued(),
    "talking-heads-attention": lambda draw: draw.talking_heads(),
    "encoder-layer": lambda draw: draw.encoder_layer(),
    "encoder-layer --fast": lambda draw: draw.encoder_layer(["--fast"], HIDING),
    "encoder": lambda draw: draw.encoder(),
    "encoder --fast": lambda draw: draw.encoder(["--fast"], HIDING),
    "decoder-layer": lambda draw: draw.decoder_layer(),
    "decoder-layer --fast": lambda draw: draw.decoder_layer(["--fast"], HIDING),
    "decoder": lambda draw: draw.decoder(),
    "transformer": lambda draw: draw.transformer(),
}


def verdict(program, case):
    """"right", "refused", or what is wrong."""
    found = run(program, case.module, case.inputs | {name: mask.saved for name, mask in case.masks.items()}, case.weights, case.flags)
    expected = case.expected.detach().numpy()
    drawn = "; ".join(f"{name} {mask.saved.shape} {mask.form}" for name, mask in case.masks.items())
    drawn += f"; of {' '.join(f'{name} {array.shape}' for name, array in case.inputs.items())} {' '.join(case.flags)}"
    if isinstance(found, str):
        is_refused = "as well as" in found and any(mask.is_ambiguous for mask in case.masks.values())
        return "refused" if is_refused else f"{drawn}: {found}"
    if any(mask.is_ambiguous for mask in case.masks.values()):
        return f"{drawn}: is ambiguous, but was taken"
    expected = expected if found.ndim == expected.ndim else expected[0]
    error = np.abs(found - expected).max() if found.shape == expected.shape else math.inf
    limit = (1e-4 if "--fast" in case.flags else 1e-11) * max(1, np.abs(expected).max())
    return "right" if error <= limit else f"{drawn}: off by {error:.1e}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--masks", type=int, default=40, help="how many of each module")
    parser.add_argument("--seed", default="masks", help="of what is drawn")
    options = parser.parse_args()
    all_verdicts = []
    for name, draw_case in MODULES.items():
        draw = random.Random(f"{options.seed} of {name}")
        verdicts = [verdict(options.program, draw_case(Draw(draw))) for _ in range(options.masks)]
        wrong = [one for one in verdicts if one not in ("right", "refused")]
        print(f"{name}: {verdicts.count('right')} right, {verdicts.count('refused')} refused as ambiguous, {len(wrong)} wrong", flush=True)
        for one in itertools.islice(wrong, 5):
            print("   ", one)
        all_verdicts += verdicts
    print(f"all: {all_verdicts.count('right')} right, {all_verdicts.count('refused')} refused as ambiguous, of {len(all_verdicts)}")
    sys.exit(0 if set(all_verdicts) == {"right", "refused"} else 1)


if __name__ == "__main__":
    main()
