"""Makes the golden of the decoder: every step of decoder layers and of whole Transformers, and of lessons 12 and 13.

Each case is an nn.TransformerDecoderLayer or an nn.Transformer with fixed weights, computed once more by PyTorch's own
operations, a step at a time, in the order of the traces. The steps have to end in what the module itself gives.

The cases are called FUNCTION.PLACEMENT.ACTIVATION.INPUT.MASK: decoder_layer.pre.gelu.batch.both. MASK is all, causal, padding (of
the memory, and of the target), both, or given (a mask of pairs for each of the two). See case.py for what a case is.
"""

import json
import math
import sys
from pathlib import Path

import numpy as np
import torch
from torch import nn

import layers
from case import case, flags, within
from layers import Masking, expect, inside, layer_flags, numbers, outputs, sizes_of, with_numbers

HERE = Path(__file__).resolve().parent
TRANSLATOR = HERE.parents[1] / "lessons" / "translator"
sys.path.insert(0, str(HERE.parent / "oracle"))
import planted
from modules import load_safetensors

# ---------------------------------------------------------------------------------------------------------- functions


def decoder_layer(x, memory, weights, placement, activation, heads, allowed, memory_allowed):
    """The steps of a decoder layer, without its inputs."""
    steps = {}

    def add(scope, part):
        steps.update(within(scope, part))
        return part["output"]

    def consult(y):
        sources = {"x": y, "memory": memory} | ({} if memory_allowed is None else {"mask": memory_allowed})
        asked = layers.multi_head({"x": y, "memory": memory}, inside("multihead_attn.", weights), heads, memory_allowed)
        return add("cross_attn", sources | asked)

    look = lambda y: add("self_attn", layers.multi_head({"x": y}, inside("self_attn.", weights), heads, allowed))
    feed = lambda y: add("feed_forward", layers.feed_forward(y, weights, activation))
    norm = lambda scope, y: add(scope, layers.layer_norm(y, inside(f"{scope}.", weights)))
    if placement == "post":
        steps["residual1"] = x + look(x)
        first = norm("norm1", steps["residual1"])
        steps["residual2"] = first + consult(first)
        second = norm("norm2", steps["residual2"])
        steps["residual3"] = second + feed(second)
        steps["output"] = norm("norm3", steps["residual3"])
    else:
        steps["residual1"] = x + look(norm("norm1", x))
        steps["residual2"] = steps["residual1"] + consult(norm("norm2", steps["residual1"]))
        steps["output"] = steps["residual2"] + feed(norm("norm3", steps["residual2"]))
    return steps


def decoder(x, memory, weights, placement, activation, heads, allowed, memory_allowed):
    """The steps of a decoder, without its inputs."""
    steps, tokens, i = {}, x, 0
    while any(name.startswith(f"layers.{i}.") for name in weights):
        of_layer = inside(f"layers.{i}.", weights)
        part = decoder_layer(tokens, memory, of_layer, placement, activation, heads, allowed, memory_allowed)
        steps |= within(f"layers.{i}", {"x": tokens} | part)
        tokens, i = part["output"], i + 1
    if "norm.weight" in weights:
        of_norm = layers.layer_norm(tokens, inside("norm.", weights))
        steps |= within("norm", of_norm)
        tokens = of_norm["output"]
    return steps | {"output": tokens}


def transformer(source, target, weights, placement, activation, heads, masks):
    """The steps of a Transformer, without its inputs. masks: source_mask, target_mask, memory_mask, where there are some."""
    encoder_weights, decoder_weights = inside("encoder.", weights), inside("decoder.", weights)
    depth = len({name.split(".")[1] for name in encoder_weights if name.startswith("layers.")})
    source_mask, target_mask = masks.get("source_mask"), masks.get("target_mask")
    named = lambda mask: {} if mask is None else {"mask": mask}
    encoded = layers.encoder(source, encoder_weights, depth, placement, activation, heads, source_mask)
    memory = encoded["output"]
    decoded = decoder(target, memory, decoder_weights, placement, activation, heads, target_mask, masks.get("memory_mask"))
    steps = within("encoder", {"x": source} | named(source_mask) | encoded)
    steps |= within("decoder", {"x": target, "memory": memory} | named(target_mask) | decoded)
    return steps | {"output": decoded["output"]}


# -------------------------------------------------------------------------------------------------------------- cases


def masking_of(mask, n, m, sequences):
    """Who may look at whom in the target, and in the memory: steps behind the inputs, and PyTorch's arguments."""
    of_target = {"both": "both", "padding": "padding"}.get(mask, mask)
    target = Masking(of_target, n, n, sequences)
    memory = Masking({"causal": "all", "both": "padding"}.get(mask, mask), n, m, sequences)
    return target, memory


def tokens_of(form, n, m, d_model):
    _, batch = sizes_of(form)
    return numbers(*batch, n, d_model, seed=n), numbers(*batch, m, d_model, seed=20 + m)


def mask_steps(role, masking):
    """The steps of one mask of several; one that is given is itself."""
    named = {} if masking.allowed is None else {f"{role}_mask": masking.allowed}
    return named if masking.padding is None and masking.causal is None else within(f"{role}_masking", masking.steps) | named


def lengths_of(role, masking):
    return {f"{role}_lengths": masking.steps["lengths"]} if "lengths" in masking.steps else {}


def decoder_layer_case(placement, activation, form, mask, d_model=6, heads=2, d_ff=5, n=4, m=3):
    sequences, _ = sizes_of(form)
    of_target, of_memory = masking_of(mask, n, m, sequences)
    bend = layers.ACTIVATIONS[activation]
    options = {"dropout": 0, "activation": bend, "batch_first": True, "norm_first": placement == "pre"}
    module = with_numbers(nn.TransformerDecoderLayer(d_model, heads, d_ff, **options), seed=400 + d_model)
    x, memory = tokens_of(form, n, m, d_model)
    steps = decoder_layer(x, memory, module.state_dict(), placement, activation, heads, of_target.allowed, of_memory.allowed)
    tgt_mask, tgt_padding = of_target.forbidden(heads)
    memory_mask, memory_padding = of_memory.forbidden(heads)
    asked = {"tgt_mask": tgt_mask, "memory_mask": memory_mask}
    asked |= {"tgt_key_padding_mask": tgt_padding, "memory_key_padding_mask": memory_padding}
    for output in outputs(module, x, memory, **asked):
        expect(steps["output"], output)
    sources = {"x": x, "memory": memory}
    masks = of_target.steps | lengths_of("memory", of_memory) | mask_steps("memory", of_memory)
    given = sources | of_target.input() | of_memory.input("memory_mask", "memory_lengths")
    run = "decoder-layer" + layer_flags(heads, placement, activation, of_target)
    return run, given, sources | masks | steps, module.state_dict()


def transformer_case(placement, activation, form, mask, layer_count=6, d_model=6, heads=2, d_ff=5, n=4, m=5):
    """nn.Transformer with padding of the source, which the target may not look at either, and a causal target."""
    sequences, _ = sizes_of(form)
    of_target, of_memory = masking_of(mask, n, m, sequences)
    of_source = Masking({"causal": "all", "both": "padding"}.get(mask, mask), m, m, sequences)
    options = {"dropout": 0, "activation": layers.ACTIVATIONS[activation], "batch_first": True, "norm_first": placement == "pre"}
    module = with_numbers(nn.Transformer(d_model, heads, layer_count, layer_count, d_ff, **options), seed=500)
    module.encoder.enable_nested_tensor = False
    target, source = tokens_of(form, n, m, d_model)
    masks = {"source_mask": of_source.allowed, "target_mask": of_target.allowed, "memory_mask": of_memory.allowed}
    masks = {name: allowed for name, allowed in masks.items() if allowed is not None}
    steps = transformer(source, target, module.state_dict(), placement, activation, heads, masks)
    (src_mask, src_padding), (tgt_mask, tgt_padding) = of_source.forbidden(heads), of_target.forbidden(heads)
    memory_mask, memory_padding = of_memory.forbidden(heads)
    asked = {"src_mask": src_mask, "tgt_mask": tgt_mask, "memory_mask": memory_mask}
    asked |= {"src_key_padding_mask": src_padding, "tgt_key_padding_mask": tgt_padding, "memory_key_padding_mask": memory_padding}
    for output in outputs(module, source, target, **asked):
        expect(steps["output"], output)
    parts = {"source": of_source, "target": of_target, "memory": of_memory}
    given = {"source": source, "target": target} | lengths_of("source", of_source) | lengths_of("target", of_target)
    masked = {step: array for role, masking in parts.items() for step, array in mask_steps(role, masking).items()}
    masks_given = {f"{role}_mask": masking.given for role, masking in parts.items() if masking.given is not None}
    run = "transformer" + layer_flags(heads, placement, activation, of_target)
    return run, given | masks_given, given | masked | steps, module.state_dict()


DECODER_LAYER = {
    "relu": ("sequence.causal batch.both sequence.all batch.given", {}),
    "gelu": ("sequence.causal batch.both batch.padding", {"d_model": 9, "heads": 3, "d_ff": 3, "n": 3, "m": 5}),
}
TRANSFORMER = ["post.relu.batch.both", "pre.gelu.sequence.given"]


def all_cases():
    """Each case after its name: what it is run with, its input, its steps and its weights."""
    for placement in ("post", "pre"):
        for activation, (forms, options) in DECODER_LAYER.items():
            for form in forms.split():
                of = decoder_layer_case(placement, activation, *form.split("."), **options)
                yield f"decoder_layer.{placement}.{activation}.{form}", *of
    for name in TRANSFORMER:
        yield f"transformer.{name}", *transformer_case(*name.split("."))


def cases():
    """Every case, step by step."""
    golden = {}
    for of in all_cases():
        golden |= case(*of)
    return golden


# ------------------------------------------------------------------------------------------------------------ lessons


def as_arrays(steps):
    return {name: torch.as_tensor(tensor).detach().contiguous().numpy() for name, tensor in steps.items()}


def drawn_map(draw, m, n, scale=1.0, bias_scale=None):
    """As the lessons draw a linear map: (in, out), then its bias."""
    return draw(m, n, scale=scale), draw(n, scale=scale if bias_scale is None else bias_scale)


def attention_state(scope, maps):
    """Part of a state_dict: the maps of query, key, value and output of one attention."""
    packed = {"in_proj_weight": np.hstack([weight for weight, _ in maps[:3]]).T, "in_proj_bias": np.hstack([bias for _, bias in maps[:3]])}
    packed |= {"out_proj.weight": maps[3][0].T, "out_proj.bias": maps[3][1]}
    return within(scope, packed)


def layer_state(attentions, feed, d):
    """A layer's state_dict, with norms as nobody has trained them; as tensors."""
    state = dict(attentions)
    for i, (weight, bias) in enumerate(feed, 1):
        state |= {f"linear{i}.weight": weight.T, f"linear{i}.bias": bias}
    for i in range(1, 4 if any(name.startswith("multihead_attn") for name in state) else 3):
        state |= {f"norm{i}.weight": np.ones(d), f"norm{i}.bias": np.zeros(d)}
    return {name: torch.from_numpy(np.array(array, float)) for name, array in state.items()}


def lesson_12():
    d, d_ff, heads = 4, 6, 2
    draw = planted.SplitMix(13)
    linear = lambda m, n: drawn_map(draw, m, n, bias_scale=0.5)
    attentions = {}
    for scope in ("self_attn", "multihead_attn"):
        attentions |= attention_state(scope, [linear(d, d) for _ in range(4)])
    state = layer_state(attentions, [linear(d, d_ff), linear(d_ff, d)], d)
    module = nn.TransformerDecoderLayer(d, heads, d_ff, dropout=0, batch_first=True).double()
    module.load_state_dict(state)

    tensor = lambda rows: torch.tensor(rows, dtype=torch.float64)
    memory = tensor([[1, -1, 0.5, -0.5], [-1.5, 0, 0.5, 1], [0, 1.5, -1, -0.5]])
    start, wanted = tensor([1, 1, 1, 1]), tensor([[1, 0, 2, 0], [0, 1, -1, 2], [2, 1, 0, -1], [-1, 0, 1, 0.5]])
    x = torch.cat([start[None], wanted[:-1]])
    causal = torch.ones(4, 4, dtype=torch.bool).tril()

    def steps_of(x):
        steps = decoder_layer(x, memory, state, "post", "relu", heads, causal, None)
        expect(steps["output"], module(x, memory, tgt_mask=~causal))
        return steps

    golden = {"memory": memory, "start": start, "wanted": wanted, "x": x, "causal": causal, "mask": causal}
    right = steps_of(x)
    other = torch.cat([x[:-1], -x[-1:]])
    changed = steps_of(other)
    golden |= right | within("changed", {"another": -x[-1:], "x": other} | changed)
    golden["change"] = (changed["output"] - right["output"]).abs().max(dim=1).values
    golden["unmasked_change"] = (module(other, memory) - module(x, memory)).abs().max(dim=1).values.detach()
    swapped = {"x": memory, "memory": right["norm1.output"]}
    golden |= within("swapped", layers.multi_head(swapped, inside("multihead_attn.", state), heads))

    real = torch.tensor([[True, True, False]]).expand(4, 3)
    padded = decoder_layer(x, memory, state, "post", "relu", heads, causal, real)
    expect(padded["output"], module(x, memory, tgt_mask=~causal, memory_mask=~real))
    return as_arrays(golden | within("padded", {"x": x, "memory": memory, "memory_mask": real} | padded))


def embedding(ids, table):
    """Scaled, with positions by the real and imaginary parts of exp(i p / 10000^(2j/d))."""
    d = table.shape[1]
    frequencies = 10000.0 ** (-2 * np.arange(d // 2) / d)
    angles = np.outer(np.arange(len(ids)), frequencies)
    turned = np.exp(1j * angles)
    positions = np.stack([turned.imag, turned.real], axis=-1).reshape(len(ids), d)
    tokens = nn.functional.embedding(torch.as_tensor(ids), table)
    steps = {"tokens": tokens, "scaled": tokens * math.sqrt(d), "frequencies": frequencies, "angles": angles, "positions": positions}
    steps = {"ids": np.array(ids, float)} | steps | {"output": steps["scaled"] + torch.from_numpy(positions)}
    return {name: torch.as_tensor(array) for name, array in steps.items()}


def lesson_13():
    config = json.loads((TRANSLATOR / "config.json").read_text())
    count, d, heads, d_ff = (config[name] for name in ("layers", "d_model", "heads", "d_ff"))
    ids_of = lambda text: [config["vocabulary"].index(word) for word in text.split()]
    start, end, most = 0, 1, 16
    stored = {name: tensor.double() for name, tensor in load_safetensors(TRANSLATOR / "model.safetensors").items()}
    table, state = stored["table"], inside("transformer.", stored)
    module = nn.Transformer(d, heads, count, count, d_ff, dropout=0, batch_first=True).double().eval()
    module.encoder.norm = module.decoder.norm = None
    module.load_state_dict(state)
    causal = lambda n: torch.ones(n, n, dtype=torch.bool).tril()

    def logits_of(source_ids, target_ids):
        """PyTorch's module on everything so far."""
        target, source = (embedding(ids, table)["output"] for ids in (target_ids, source_ids))
        with torch.no_grad():
            return module(source, target, tgt_mask=~causal(len(target_ids))) @ table.T

    def search(source_ids, width):
        """The likeliest of `width` sentences side by side; of one, greedy decoding."""
        beam = [(0.0, [start])]
        for _ in range(most):
            longer = [(total, ids) for total, ids in beam if ids[-1] == end]
            for total, ids in (sentence for sentence in beam if sentence[1][-1] != end):
                best = logits_of(source_ids, ids)[-1].log_softmax(dim=0).topk(width)
                longer += [(total + value.item(), [*ids, word.item()]) for value, word in zip(*best)]
            beam = sorted(longer, reverse=True)[:width]
        return beam[0][1][1:]

    source_ids = ids_of("Lily had a red ball .")
    said = search(source_ids, 1)
    assert said == ids_of("Lily avait une balle rouge . <end>")
    target_ids, n, m = [start, *said[:-1]], len(said), len(source_ids)

    golden = {"start": torch.tensor([start]), "source_ids": torch.tensor(source_ids), "table": table}
    golden |= {"said": torch.tensor(said), "target_ids": torch.tensor(target_ids)}
    source, target = embedding(source_ids, table), embedding(target_ids, table)
    golden |= within("source_embedding", source) | within("target_embedding", target)
    golden |= {"source": source["output"], "target": target["output"], "causal": causal(n), "target_mask": causal(n)}
    steps = transformer(source["output"], target["output"], state, "post", "relu", heads, {"target_mask": causal(n)})
    logits = steps["output"] @ table.T
    expect(logits, logits_of(source_ids, target_ids))
    golden |= steps | {"generator.x": steps["output"], "generator.logits": logits, "logits": logits, "next_ids": logits.argmax(dim=1)}
    golden |= {"cached.logits": logits, "cached.difference": torch.zeros(n)}  # a cache changes nothing

    # Multiplications, counted product by product, at the sizes of Vaswani et al. 2017.
    count, d, d_ff = 6, 512, 2048
    k = torch.arange(1, n + 1)
    product = lambda rows, inner, columns: rows * inner * columns
    attention = lambda rows, seen: product(rows, d, seen) + product(rows, seen, d)
    own = lambda rows, seen: 4 * product(rows, d, d) + attention(rows, seen)
    asked = lambda rows: 2 * product(rows, d, d) + attention(rows, m)
    fed = lambda rows: product(rows, d, d_ff) + product(rows, d_ff, d)
    memory = count * 2 * product(m, d, d)
    everything = count * (own(k, k) + asked(k) + fed(k)) + memory
    newest = count * (own(1, k) + asked(1) + fed(1))
    cost = {"layers": count, "d": d, "d_ff": d_ff, "m": m, "k": k, "all": everything, "one": newest, "memory": memory}
    without, kept = everything.sum(), memory + newest.sum()
    cost |= {"without_cache": without, "with_cache": kept, "ratio": without.double() / kept}
    golden |= within("cost", cost)

    bike = ids_of("Mia had a white bike .")
    golden["bike.source_ids"] = torch.tensor(bike)
    for name, width, french in (("greedy", 1, "Mia avait une bicyclette blanche ."), ("beam", 2, "Mia avait un vélo blanc .")):
        ids = search(bike, width)
        assert ids == ids_of(f"{french} <end>")
        of_bike = logits_of(bike, [start, *ids[:-1]])
        chances = of_bike.softmax(dim=1)[range(len(ids)), ids]
        scored = {"ids": torch.tensor(ids), "logits": of_bike, "chances": chances}
        golden |= within(f"bike.{name}", scored | {"log_probability": chances.log().sum(), "probability": chances.prod()})
    return as_arrays(golden)
