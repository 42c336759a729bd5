"""Measures what fewer bits for keys and values, or for weights, take from the small model.

    measured.py [FOLDER]

Writes measured.json to FOLDER, by default its own. Stories are read word by word: a word attends to its own key as it is, and to those
before it as the cache keeps them.
"""

import json
import sys
from pathlib import Path

import torch

LESSONS = Path(__file__).resolve().parents[1]
sys.path += [str(LESSONS), str(LESSONS / "small_model")]
import grammar
import measure as roles
import recipe
from model import HEADS, ID, SmallModel

HELD_OUT_STORIES = 200
PROMPT = "Lily had a red ball and a blue kite . She took the blue"
CHANNEL, FACTOR = 2, 16.0
CACHES = (
    "none", "float8_e4m3", "float8_e5m2", "int8:token", "int4:token", "int4:block8", "int4:channel4,int4:token", "uint2:token",
    "uint2:block4,uint2:token", "uint2:channel4,uint2:token",
)  # fmt: skip
WEIGHTS = ("none", "int8:tensor", "int4:tensor", "int4:channel", "int4:block8", "uint2:channel")

FLOATS = {"float8_e4m3": (4, -6), "float8_e5m2": (3, -14)}  # digits, and the least exponent
WHOLE = {"int8": 127, "int4": 7, "uint8": 255, "uint4": 15, "uint2": 3}  # the largest code


def nearest(x, digits, smallest):
    """Of a type that is wide enough for x; torch.float8_e4m3fn is of a later PyTorch than the one that Debian 12 has."""
    spacing = 2.0 ** (torch.clamp(torch.frexp(x)[1] - 1, min=smallest) - digits + 1)
    return torch.round(x / spacing) * spacing


def scaled(x, kind, axes):
    """Whole numbers times a scale, which those along the axes share; types without a sign begin at the lowest number."""
    of = lambda reduce, x: reduce(x, dim=axes, keepdim=True)
    lowest = of(torch.amin, x) if kind[0] == "u" else torch.zeros(())
    scale = (of(torch.amax, x) - lowest if kind[0] == "u" else of(torch.amax, x.abs())) / WHOLE[kind]
    return torch.round((x - lowest) / torch.where(scale > 0, scale, torch.ones(()))) * scale + lowest


def parts_of(text):
    """int4:channel4 as ("int4", "channel", 4)."""
    kind, _, scale = text.partition(":")
    return kind, scale.rstrip("0123456789"), int("".join(filter(str.isdigit, scale)) or 0)


def stored(x, text):
    """What a cache reads back of (…, n, d); of groups of tokens that are whole."""
    kind, scale, group = parts_of(text)
    if kind in FLOATS:
        return nearest(x, *FLOATS[kind])
    if scale == "token":
        return scaled(x, kind, -1)
    if scale == "block":
        return scaled(x.unflatten(-1, (-1, group)), kind, -1).flatten(-2)
    whole = x.shape[-2] // group * group
    rounded = scaled(x[..., :whole, :].unflatten(-2, (-1, group)), kind, -2).flatten(-3, -2)
    return torch.cat([rounded, x[..., whole:, :]], dim=-2)


def is_read_stored(n, text):
    """(n, m): true where a word reads the key of an earlier one as it was rounded."""
    _, scale, group = parts_of(text)
    query, key = torch.arange(n)[:, None], torch.arange(n)
    return (key // group + 1) * group <= query if scale == "channel" else key < query


def hadamard(d):
    h = torch.ones(1, 1, dtype=torch.float64)
    while len(h) < d:
        h = torch.cat([torch.cat([h, h], 1), torch.cat([h, -h], 1)], 0)
    return h / d**0.5


def changed(variant, d_k):
    """What each head's keys are multiplied by, and its queries, so that scores stay: one large channel, and a rotation after it."""
    factors = torch.ones(d_k, dtype=torch.float64)
    if variant != "own":
        factors[CHANNEL] = FACTOR
    rotation = hadamard(d_k) if variant == "rotated" else torch.eye(d_k, dtype=torch.float64)
    return torch.diag(factors) @ rotation, torch.diag(1 / factors) @ rotation


@torch.no_grad()
def read(model, ids, cache="none", variant="own"):
    """The logits of each word, read word by word with such a cache."""
    n = ids.shape[1]
    x = model.token_embedding(ids) + model.position_embedding(torch.arange(n))
    key_format, _, value_format = cache.partition(",")
    value_format = value_format or key_format
    for layer in model.layers:
        attention = layer.self_attn
        q, k, v = (layer.norm1(x) @ attention.in_proj_weight.T + attention.in_proj_bias).chunk(3, dim=-1)
        apart = lambda packed: packed.unflatten(-1, (HEADS, -1)).transpose(1, 2)
        together = lambda heads: heads.transpose(1, 2).flatten(-2)
        for_keys, for_queries = changed(variant, q.shape[-1] // HEADS)
        q, k, v = apart(q) @ for_queries, apart(k) @ for_keys, apart(v)
        scores = q @ k.transpose(-1, -2)
        if cache != "none":
            rounded = apart(stored(together(k), key_format))
            scores = torch.where(is_read_stored(n, key_format), q @ rounded.transpose(-1, -2), scores)
        weights = (scores / q.shape[-1] ** 0.5).masked_fill(~recipe.window_mask(n), -torch.inf).softmax(dim=-1)
        context = weights @ v
        if cache != "none":
            context = context + (weights * is_read_stored(n, value_format)) @ (apart(stored(together(v), value_format)) - v)
        x = x + attention.out_proj(together(context))
        x = x + layer.linear2(layer.linear1(layer.norm2(x)).relu())
    return model.norm(x) @ model.token_embedding.weight.T


@torch.no_grad()
def with_rounded_weights(text):
    """Every matrix of the layers, which lie as (out, in): a channel is an output."""
    model = small_model()
    kind, scale, group = parts_of(text)
    for matrix in (p for p in model.layers.parameters() if p.dim() == 2 and text != "none"):
        if scale == "block":
            matrix.copy_(scaled(matrix.unflatten(-1, (-1, group)), kind, -1).flatten(-2))
        else:
            matrix.copy_(scaled(matrix, kind, (0, 1) if scale == "tensor" else -1))
    return model


def small_model():
    model = SmallModel().eval().double()
    recipe.load(LESSONS / "small_model" / "model.safetensors", model)
    return model


def main(folder):
    stories = grammar.stories(HELD_OUT_STORIES, held_out=True, seed=2)
    batch, _ = roles.batch_of(stories)
    prompt = torch.tensor([[ID[word] for word in PROMPT.split()]])

    def found(model, **how):
        chances = read(model, prompt, **how)[0, -1].softmax(0)
        return {"loss": roles.expected_loss(read(model, batch, **how), stories), "kite": chances[ID["kite"]].item()}

    # A format's name in a path: uint2_channel4_token.
    path = lambda text: text.replace(":", "_").replace(",", "_")
    model = small_model()
    caches = {variant: {path(cache): found(model, cache=cache, variant=variant) for cache in CACHES} for variant in ("own", "raised", "rotated")}
    weights = {path(text): found(with_rounded_weights(text)) for text in WEIGHTS}
    measured = {"stories": HELD_OUT_STORIES, "channel": CHANNEL, "factor": FACTOR, "cache": caches, "weights": weights}
    (folder / "measured.json").write_text(json.dumps(measured, indent=1) + "\n")
    print(json.dumps(measured, indent=1))


if __name__ == "__main__":
    sys.exit(recipe.run(main, __file__, __doc__))
