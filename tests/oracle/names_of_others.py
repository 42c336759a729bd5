#!/usr/bin/env python3
"""Runs attn on state_dicts as GPT-2, nanoGPT, BERT, Whisper, and models like Llama have them.

    names_of_others.py ATTN_PROGRAM

The weights are random, their names and layouts are those of the models; what comes out has to be what the model computes,
written here in PyTorch from the model's description. `attn verify` has to agree with each trace.

A line a case. Exit code 0 where all agree to 1e-12, 1 where one does not, 77 where there is no PyTorch.
"""

import functools
import math
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import numpy as np
    import torch
    from torch.nn import functional as F
except ImportError:
    print("names_of_others.py: skipped, there is no PyTorch")
    sys.exit(77)

torch.manual_seed(1)
torch.set_default_dtype(torch.float64)

D, FF, LAYERS, WORDS, PLACES, N = 8, 20, 2, 11, 9, 5
GELU_TANH = functools.partial(F.gelu, approximate="tanh")


def numbers(*shape):
    return torch.randn(*shape) * 0.5


# ------------------------------------------------------------------------------------------------------------ running


def run(module, inputs, weights, flags):
    """The step output of attn run, or what it says in its place."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        np.savez(path / "i.npz", **{name: np.asarray(array) for name, array in inputs.items()})
        np.savez(path / "w.npz", **{name: tensor.numpy() for name, tensor in weights.items()})
        files = ["--input", path / "i.npz", "--weights", path / "w.npz", "--trace", path / "t.npz"]
        ran = subprocess.run([sys.argv[1], "run", module, *files, "--quiet", *flags.split()], capture_output=True, text=True)
        if ran.returncode != 0:
            return ran.stderr
        verified = subprocess.run([sys.argv[1], "verify", path / "t.npz"], capture_output=True, text=True)
        if verified.returncode != 0:
            return verified.stdout
        return np.load(path / "t.npz")["output"]


failed = False


def check(case, found, expected):
    global failed
    fits = not isinstance(found, str) and found.shape == tuple(expected.shape)
    error = np.abs(found - expected.numpy()).max() / max(1, expected.abs().max().item()) if fits else math.inf
    print(f"{case}: {f'{error:.1e}' if fits else found if isinstance(found, str) else found.shape}")
    failed = failed or not error <= 1e-12


# ------------------------------------------------------------------------------------------------------ what they share


def attend(query, key, value, mask=None, bias=0.0, softcap=None):
    """Of heads: (…, h, n, d)."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    scores = (softcap * torch.tanh(scores / softcap) if softcap else scores) + bias
    scores = scores if mask is None else scores.masked_fill(~mask, -math.inf)
    return torch.softmax(scores, -1) @ value


def split(x, heads):
    return x.view(*x.shape[:-1], heads, -1).transpose(-2, -3)


def merge(x):
    return x.transpose(-2, -3).flatten(-2)


def no_later(n):
    return torch.ones(n, n, dtype=torch.bool).tril()


def linear(weights, name, x):
    return x @ weights[f"{name}.weight"].T + weights.get(f"{name}.bias", 0)


def maps(weights, sizes, has_bias=lambda name: True):
    for name, (out, into) in sizes.items():
        weights[f"{name}.weight"] = numbers(out, into)
        if has_bias(name):
            weights[f"{name}.bias"] = numbers(out)


def norms(weights, names, has_bias=True):
    for name in names:
        weights[f"{name}.weight"] = numbers(D)
        if has_bias:
            weights[f"{name}.bias"] = numbers(D)


# --------------------------------------------------------------------------------------------------- GPT-2 and nanoGPT


def gpt_weights(is_conv1d, has_bias, root):
    weights = {f"{root}wte.weight": numbers(WORDS, D), f"{root}wpe.weight": numbers(PLACES, D)}
    for layer in (f"{root}h.{i}." for i in range(LAYERS)):
        maps(weights, {f"{layer}attn.c_attn": (3 * D, D), f"{layer}attn.c_proj": (D, D), f"{layer}mlp.c_fc": (FF, D),
                       f"{layer}mlp.c_proj": (D, FF)}, lambda _: has_bias)
        norms(weights, [f"{layer}ln_1", f"{layer}ln_2"], has_bias)
        if is_conv1d:  # buffers of older files
            weights[f"{layer}attn.bias"] = no_later(PLACES)[None, None]
            weights[f"{layer}attn.masked_bias"] = torch.tensor(-1e4)
    norms(weights, [f"{root}ln_f"], has_bias)
    if root:
        weights["lm_head.weight"] = weights[f"{root}wte.weight"]
    return weights


def as_conv1d(weights):
    """Hugging Face's Conv1D has maps as (in, out)."""
    return {name: tensor.T.contiguous() if ".c_" in name and tensor.dim() == 2 else tensor
            for name, tensor in weights.items()}


def gpt_attention(weights, name, x):
    query, key, value = (split(part, 2) for part in linear(weights, f"{name}c_attn", x).split(D, -1))
    return linear(weights, f"{name}c_proj", merge(attend(query, key, value, no_later(x.shape[-2]))))


def gpt_network(weights, name, x, activation):
    return linear(weights, f"{name}c_proj", activation(linear(weights, f"{name}c_fc", x)))


def gpt(weights, ids, activation, root):
    def norm(name, x):
        return F.layer_norm(x, (D,), weights[f"{name}.weight"], weights.get(f"{name}.bias"))

    x = weights[f"{root}wte.weight"][ids] + weights[f"{root}wpe.weight"][: ids.shape[-1]]
    for layer in (f"{root}h.{i}." for i in range(LAYERS)):
        x = x + gpt_attention(weights, f"{layer}attn.", norm(f"{layer}ln_1", x))
        x = x + gpt_network(weights, f"{layer}mlp.", norm(f"{layer}ln_2", x), activation)
    return norm(f"{root}ln_f", x) @ weights[f"{root}wte.weight"].T


def check_gpt(one, batch):
    for is_conv1d, has_bias in ((True, True), (False, True), (False, False)):
        for root in ("transformer.", ""):
            for ids in (one, batch):
                weights = gpt_weights(is_conv1d, has_bias, root)
                given = as_conv1d(weights) if is_conv1d else weights
                check(f"gpt, {'GPT-2' if is_conv1d else 'nanoGPT'}, {'' if has_bias else 'no '}biases, {root}wte, {tuple(ids.shape)}",
                      run("gpt", {"ids": ids}, given, "--heads 2"), gpt(weights, ids, GELU_TANH if is_conv1d else F.gelu, root))
    weights, x = gpt_weights(True, True, ""), numbers(N, D)
    check("feed-forward, GPT-2", run("feed-forward", {"x": x}, as_conv1d(weights), "--prefix h.1.mlp. --activation gelu-tanh"),
          gpt_network(weights, "h.1.mlp.", x, GELU_TANH))
    check("multi-head-attention, GPT-2",
          run("multi-head-attention", {"x": x}, as_conv1d(weights), "--prefix h.1.attn. --heads 2 --mask causal"),
          gpt_attention(weights, "h.1.attn.", x))


# --------------------------------------------------------------------------------------------------------------- BERT


def bert_weights():
    weights = {}
    for layer in (f"bert.encoder.layer.{i}." for i in range(LAYERS)):
        maps(weights, {f"{layer}attention.self.{part}": (D, D) for part in ("query", "key", "value")})
        maps(weights, {f"{layer}attention.output.dense": (D, D), f"{layer}intermediate.dense": (FF, D),
                       f"{layer}output.dense": (D, FF)})
        norms(weights, [f"{layer}attention.output.LayerNorm", f"{layer}output.LayerNorm"])
    return weights


def bert_attention(weights, name, x, mask=None):
    query, key, value = (split(linear(weights, f"{name}self.{part}", x), 2) for part in ("query", "key", "value"))
    return linear(weights, f"{name}output.dense", merge(attend(query, key, value, mask)))


def bert(weights, x, mask, layers=LAYERS):
    def norm(name, tokens):
        return F.layer_norm(tokens, (D,), weights[f"{name}.weight"], weights[f"{name}.bias"], 1e-12)

    for layer in (f"bert.encoder.layer.{i}." for i in range(layers)):
        x = norm(f"{layer}attention.output.LayerNorm", x + bert_attention(weights, f"{layer}attention.", x, mask))
        hidden = F.gelu(linear(weights, f"{layer}intermediate.dense", x))
        x = norm(f"{layer}output.LayerNorm", x + linear(weights, f"{layer}output.dense", hidden))
    return x


def check_bert():
    weights, x = bert_weights(), numbers(2, N, D)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    flags = "--heads 2 --activation gelu --epsilon 1e-12"
    expected = bert(weights, x, mask[:, None, None, :].bool())
    for given in (mask, mask.double(), mask.bool(), mask[:, None, None, :]):
        check(f"encoder, BERT, mask {tuple(given.shape)} of {given.dtype}",
              run("encoder", {"x": x, "mask": given}, weights, f"--prefix bert.encoder. {flags}"), expected)
    check("encoder-layer, BERT", run("encoder-layer", {"x": x}, weights, f"--prefix bert.encoder.layer.0. {flags}"),
          bert(weights, x, None, 1))
    name = "bert.encoder.layer.1.attention."
    check("multi-head-attention, BERT", run("multi-head-attention", {"x": x}, weights, f"--prefix {name} --heads 2"),
          bert_attention(weights, name, x))


# --------------------------------------------------------------------------------------------------- models like Llama


def llama_weights(heads=4, groups=2, d_k=4, qkv_bias=False, all_biases=False, has_norms=False, is_tied=False):
    weights = {"model.embed_tokens.weight": numbers(WORDS, D), "model.norm.weight": numbers(D)}
    if not is_tied:
        weights["lm_head.weight"] = numbers(WORDS, D)
    for layer in (f"model.layers.{i}." for i in range(LAYERS)):
        attention = f"{layer}self_attn."
        maps(weights, {f"{attention}q_proj": (heads * d_k, D), f"{attention}k_proj": (groups * d_k, D),
                       f"{attention}v_proj": (groups * d_k, D)}, lambda _: qkv_bias or all_biases)
        maps(weights, {f"{attention}o_proj": (D, heads * d_k), f"{layer}mlp.gate_proj": (FF, D),
                       f"{layer}mlp.up_proj": (FF, D), f"{layer}mlp.down_proj": (D, FF)}, lambda _: all_biases)
        norms(weights, [f"{layer}input_layernorm", f"{layer}post_attention_layernorm"], False)
        if has_norms:
            weights[f"{attention}q_norm.weight"], weights[f"{attention}k_norm.weight"] = numbers(d_k), numbers(d_k)
    return weights


def rms_norm(x, gain):
    return x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * gain


def rotate(x):
    d = x.shape[-1]
    angles = torch.outer(torch.arange(x.shape[-2]).double(), 10000.0 ** (-torch.arange(0, d, 2) / d))
    first, second = x[..., : d // 2], x[..., d // 2:]
    return torch.cat([first * angles.cos() - second * angles.sin(), first * angles.sin() + second * angles.cos()], -1)


def llama_attention(weights, name, x, heads, groups):
    query = split(linear(weights, f"{name}q_proj", x), heads)
    key, value = (split(linear(weights, f"{name}{part}", x), groups) for part in ("k_proj", "v_proj"))
    if f"{name}q_norm.weight" in weights:
        query, key = rms_norm(query, weights[f"{name}q_norm.weight"]), rms_norm(key, weights[f"{name}k_norm.weight"])
    key, value = (part.repeat_interleave(heads // groups, -3) for part in (rotate(key), value))
    return linear(weights, f"{name}o_proj", merge(attend(rotate(query), key, value, no_later(x.shape[-2]))))


def llama_network(weights, name, x, activation=F.silu):
    gate, up = linear(weights, f"{name}gate_proj", x), linear(weights, f"{name}up_proj", x)
    return linear(weights, f"{name}down_proj", activation(gate) * up)


def llama(weights, ids, heads=4, groups=2):
    x = weights["model.embed_tokens.weight"][ids]
    for layer in (f"model.layers.{i}." for i in range(LAYERS)):
        normalized = rms_norm(x, weights[f"{layer}input_layernorm.weight"])
        x = x + llama_attention(weights, f"{layer}self_attn.", normalized, heads, groups)
        x = x + llama_network(weights, f"{layer}mlp.", rms_norm(x, weights[f"{layer}post_attention_layernorm.weight"]))
    output = weights.get("lm_head.weight", weights["model.embed_tokens.weight"])
    return rms_norm(x, weights["model.norm.weight"]) @ output.T


def check_llama(one, batch):
    for model, sizes in {"Llama": {}, "tied": {"is_tied": True}, "Qwen2": {"qkv_bias": True},
                         "Qwen3": {"has_norms": True, "d_k": 6}, "every bias": {"all_biases": True}}.items():
        for ids in (one, batch):
            weights = llama_weights(**sizes)
            check(f"llama, {model}, {tuple(ids.shape)}", run("llama", {"ids": ids}, weights, "--without-config --heads 4 --epsilon 1e-6"),
                  llama(weights, ids))
    weights, x = llama_weights(d_k=6, qkv_bias=True, has_norms=True), numbers(2, N, D)
    flags = "--heads 4 --positions rotary --rotary-layout halves --mask causal --norm-epsilon 1e-6"
    for tokens in (x, x[0]):
        check(f"multi-head-attention, Qwen3, {tuple(tokens.shape)}",
              run("multi-head-attention", {"x": tokens}, weights, f"--prefix model.layers.1.self_attn. {flags}"),
              llama_attention(weights, "model.layers.1.self_attn.", tokens, 4, 2))
    for name, activation in {"silu": F.silu, "gelu-tanh": GELU_TANH}.items():
        check(f"gated-feed-forward, {name}",
              run("gated-feed-forward", {"x": x}, weights, f"--prefix model.layers.0.mlp. --activation {name}"),
              llama_network(weights, "model.layers.0.mlp.", x, activation))
    check("rms-norm", run("rms-norm", {"x": x}, weights, "--prefix model.norm. --epsilon 1e-6"),
          rms_norm(x, weights["model.norm.weight"]))
    check("embedding", run("embedding", {"ids": batch}, weights, "--prefix model.embed_tokens."),
          weights["model.embed_tokens.weight"][batch])


# -------------------------------------------------------------------------------------------------- attention by itself


def attention(weights, x, memory, heads, groups, **options):
    query = split(linear(weights, "q_proj", x), heads)
    key, value = (split(linear(weights, part, memory), groups).repeat_interleave(heads // groups, -3)
                  for part in ("k_proj", "v_proj"))
    return linear(weights, "out_proj", merge(attend(query, key, value, **options)))


def check_attention():
    whisper = {}
    maps(whisper, {f"{part}_proj": (D, D) for part in ("q", "k", "v", "out")}, lambda name: name != "k_proj")
    x, memory = numbers(2, N, D), numbers(2, 7, D)
    module = functools.partial(run, "multi-head-attention")
    check("multi-head-attention, Whisper", module({"x": x}, whisper, "--heads 2"), attention(whisper, x, x, 2, 2))
    check("multi-head-attention, Whisper, memory", module({"x": x, "memory": memory}, whisper, "--heads 2"),
          attention(whisper, x, memory, 2, 2))
    for shape in ((2, 1, N, N), (2, 2, N, N), (1, 2, N, N), (4, N, N)):
        bias = numbers(*shape)
        whole = bias.view(2, 2, N, N) if len(shape) == 3 else bias
        check(f"multi-head-attention, bias {shape}", module({"x": x, "bias": bias}, whisper, "--heads 2"),
              attention(whisper, x, x, 2, 2, bias=whole))
        check(f"multi-head-attention, mask {shape}", module({"x": x, "mask": bias > -0.8}, whisper, "--heads 2"),
              attention(whisper, x, x, 2, 2, mask=whole > -0.8))

    # Four heads of three features, two of keys and values: apart and packed.
    apart = {}
    maps(apart, {"q_proj": (12, D), "k_proj": (6, D), "v_proj": (6, D), "out_proj": (D, 12)})
    packed = {f"in_proj_{part}": torch.cat([apart[f"{name}_proj.{part}"] for name in "qkv"]) for part in ("weight", "bias")}
    packed |= {name: apart[name] for name in ("out_proj.weight", "out_proj.bias")}
    for name, weights in {"apart": apart, "packed": packed}.items():
        for flags, softcap in (("", None), ("--softcap 1.5", 1.5)):
            check(f"multi-head-attention, shared heads, {name} {flags}", module({"x": x}, weights, f"--heads 4 {flags}"),
                  attention(apart, x, x, 4, 2, softcap=softcap))


check_gpt(torch.randint(0, WORDS, (N,)), torch.randint(0, WORDS, (2, N)))
check_bert()
check_llama(torch.randint(0, WORDS, (N,)), torch.randint(0, WORDS, (2, N)))
check_attention()
sys.exit(1 if failed else 0)
