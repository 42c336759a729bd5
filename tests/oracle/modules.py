#!/usr/bin/env python3
"""Runs modules of PyTorch and of attn on the same numbers, and carries weights from one to the other and back.

    modules.py ATTN_PROGRAM REWRITE_WEIGHTS_PROGRAM [SEED]

Ten configurations of attention and encoders and six of recurrent layers, drawn from a seed; with the one that is taken
unless given, every choice occurs. Each module's state_dict goes to a file as it is, `attn run` reads it, and its output
has to be the module's; `attn verify` has to agree with the trace. Then the weights that attn read are written by attn,
and have to fit a new module without a name more or less, and give the same output there.

A line a configuration. Exit code 0 where all agree, 1 at the first that doesn't, 77 where there is no PyTorch.
"""

import functools
import json
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
    from torch.nn import functional as F
    from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
except ImportError:
    print("modules.py: skipped, there is no PyTorch")
    sys.exit(77)

CODES = {torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "gelu-tanh": functools.partial(F.gelu, approximate="tanh")}


class Mismatch(Exception):
    pass


# -------------------------------------------------------------------------------------------------------------- files


def save_safetensors(path, tensors):
    """8 bytes of length, JSON of that length, the numbers; bfloat16 by its bits, for NumPy has no such type."""
    header, data = {}, b""
    for name, tensor in tensors.items():
        raw = (tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor).numpy().tobytes()
        offsets = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": CODES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": offsets}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def load_safetensors(path):
    types = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    tensors = {}
    for name, entry in json.loads(content[8:end]).items():
        if name != "__metadata__":
            begin, stop = (end + offset for offset in entry["data_offsets"])
            array = np.frombuffer(content[begin:stop], types[entry["dtype"]]).reshape(entry["shape"])
            tensors[name] = torch.from_numpy(array.copy())
    return tensors


def save(path, tensors):
    if path.suffix == ".safetensors":
        save_safetensors(path, tensors)
    else:
        np.savez(path, **{name: tensor.numpy() for name, tensor in tensors.items()})


def load(path):
    if path.suffix == ".safetensors":
        return load_safetensors(path)
    return {name: torch.from_numpy(array) for name, array in np.load(path).items()}


# ----------------------------------------------------------------------------------------------------- configurations


def draw_attention(draw, heads, d_model):
    """nn.MultiheadAttention: on x itself, on a memory, or on keys and values of different sizes."""
    kind = draw.choice(["self", "memory", "values"])
    d_memory, d_value = {
        "self": (d_model, d_model),
        "memory": (draw.choice([d_model, 5]),) * 2,
        "values": (draw.choice([3, 5]), draw.choice([4, 7])),
    }[kind]
    biased = draw.random() < 0.7
    make = lambda: nn.MultiheadAttention(d_model, heads, bias=biased, kdim=d_memory, vdim=d_value, batch_first=True)
    sizes = {"kind": kind, "d_memory": d_memory, "d_value": d_value}
    return {"module": "multi-head-attention", "make": make, "bias": biased} | sizes


def draw_encoder(draw, heads, d_model, module):
    """nn.TransformerEncoderLayer, or one to three of them in an nn.TransformerEncoder."""
    d_ff, norm, activation = draw.choice([1, 4, 7, 11]), draw.choice(["pre", "post"]), draw.choice(list(ACTIVATIONS))
    layers, final_norm, epsilon = draw.randint(1, 3), draw.random() < 0.5, draw.choice([1e-5, 1e-3, 0.1])

    def make_layer():
        options = {"activation": ACTIVATIONS[activation], "norm_first": norm == "pre", "layer_norm_eps": epsilon}
        return nn.TransformerEncoderLayer(d_model, heads, d_ff, batch_first=True, dropout=0, **options)

    def make_encoder():
        last = nn.LayerNorm(d_model, eps=epsilon) if final_norm else None
        return nn.TransformerEncoder(make_layer(), layers, last, enable_nested_tensor=False)

    drawn = {"kind": "self", "d_ff": d_ff, "norm": norm, "activation": activation, "epsilon": epsilon}
    if module == "encoder-layer":
        return drawn | {"module": module, "make": make_layer}
    return drawn | {"module": module, "make": make_encoder, "layers": layers, "final_norm": final_norm}


def draw_recurrent(draw, number):
    """nn.GRU or nn.LSTM, of packed sequences where there are lengths."""
    module = ("gru", "lstm")[number % 2]
    d_in, d_hidden, layers = draw.choice([1, 2, 5]), draw.choice([1, 2, 3, 4]), draw.randint(1, 3)
    options = {"num_layers": layers, "bias": draw.random() < 0.7, "bidirectional": draw.random() < 0.5}
    new = nn.LSTM if module == "lstm" else nn.GRU
    sequences = draw.choice([None, 1, 2, 3])
    ending = (".safetensors", ".npz")[number // 2 % 2]
    return {
        "module": module, "make": lambda: new(d_in, d_hidden, batch_first=True, **options), "kind": "self",
        "d_model": d_in, "d_hidden": d_hidden, **options, "n": draw.choice([1, 2, 3, 6]), "batch": sequences,
        "lengths": sequences is not None and draw.random() < 0.7, "initial": draw.random() < 0.5,
        "ending": ending, "type": draw.choice(list(CODES)[:3]), "prefix": "encoder." if draw.random() < 0.4 else "",
    }  # fmt: skip


def draw_configuration(draw, number):
    if number >= 10:
        return draw_recurrent(draw, number)
    heads = draw.choice([1, 1, 2, 3, 5])
    d_model = heads * draw.choice([size for size in (1, 2, 3, 4, 5) if heads * size > 2])
    module = ("encoder", "multi-head-attention", "encoder-layer")[number % 3]
    drawn = draw_attention(draw, heads, d_model) if number % 3 == 1 else draw_encoder(draw, heads, d_model, module)
    n = draw.choice([1, 2, 3, 5, 7])
    m = n if drawn["kind"] == "self" else draw.choice([1, 2, 5, 11])
    sequences = draw.choice([None, 1, 2, 3])
    masks = ["none", "causal-top-left"] + ["causal"] * (n <= m)  # else the first queries can attend to nothing
    ending = (".safetensors", ".npz")[number % 2]
    types = list(CODES) if ending == ".safetensors" else list(CODES)[:3]
    return drawn | {
        "heads": heads, "d_model": d_model, "n": n, "m": m, "batch": sequences, "mask": draw.choice(masks),
        "lengths": sequences is not None and draw.random() < 0.7,
        "given_mask": draw.random() < 0.3,
        "ending": ending, "type": types[number // 2 % len(types)], "prefix": "encoder." if number % 4 == 2 else "",
    }  # fmt: skip


def described(configuration):
    words = {name: value for name, value in configuration.items() if name not in ("module", "make")}
    return f"{configuration['module']}: " + " ".join(f"{name}={value}" for name, value in words.items() if value != "")


def with_weights(module, dtype):
    """The module in float64, with weights that the type can hold, gains around one."""
    module = module.double()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            is_gain = "norm" in name and name.endswith("weight")
            numbers = is_gain + torch.randn(parameter.shape, dtype=torch.float64) * 0.5
            parameter.copy_(numbers.to(dtype))
    return module


def draw_states(draw, c):
    """What `attn run gru` and `attn run lstm` take from a file."""
    batch = [] if c["batch"] is None else [c["batch"]]
    inputs = {"x": torch.randn((*batch, c["n"], c["d_model"]), dtype=torch.float64)}
    if c["lengths"]:
        inputs["lengths"] = torch.tensor([draw.randint(1, c["n"]) for _ in range(c["batch"])])
    if c["initial"]:
        cells = c["num_layers"] * (2 if c["bidirectional"] else 1)
        for name in ("initial_hidden", "initial_cell")[: 2 if c["module"] == "lstm" else 1]:
            inputs[name] = torch.randn((cells, *batch, c["d_hidden"]), dtype=torch.float64)
    return inputs


def mask_shapes(batch, n, m):
    """One mask of each sequence, or one for all, which attn refuses where it could be one row of keys per sequence."""
    own = (n, m) if batch is None else (batch, n, m)
    return [own, own if batch == n else (n, m)]


def draw_inputs(draw, c):
    """What `attn run` takes from a file."""
    if c["module"] in ("gru", "lstm"):
        return draw_states(draw, c)
    shape = lambda tokens, features: (*([] if c["batch"] is None else [c["batch"]]), tokens, features)
    inputs = {"x": torch.randn(shape(c["n"], c["d_model"]), dtype=torch.float64)}
    if c["kind"] != "self":
        inputs["memory"] = torch.randn(shape(c["m"], c["d_memory"]), dtype=torch.float64)
    if c["kind"] == "values":
        inputs["value_memory"] = torch.randn(shape(c["m"], c["d_value"]), dtype=torch.float64)
    if c["lengths"]:
        inputs["lengths"] = torch.tensor([draw.randint(1, c["m"]) for _ in range(c["batch"])])
    if c["given_mask"]:  # for all sequences, or for each its own
        inputs["mask"] = torch.rand(draw.choice(mask_shapes(c["batch"], c["n"], c["m"]))) < 0.7
        inputs["mask"][..., 0] = True
    return inputs


# ---------------------------------------------------------------------------------------------------------------- runs


def forbidden_pairs(inputs, c):
    """PyTorch's masks are true where one may **not** look; one for each sequence it wants once for each head."""
    diagonal = {"causal": c["m"] - c["n"], "causal-top-left": 0, "none": c["m"]}[c["mask"]]
    allowed = torch.ones(c["n"], c["m"], dtype=torch.bool).tril(diagonal)
    if "mask" in inputs:
        allowed = allowed & inputs["mask"]
    return ~(allowed if allowed.dim() == 2 else allowed.repeat_interleave(c["heads"], dim=0))


def recurrent_by_pytorch(module, inputs):
    states = tuple(inputs[name] for name in ("initial_hidden", "initial_cell") if name in inputs)
    given = {0: None, 1: states[0] if states else None, 2: states}[len(states)]
    if "lengths" not in inputs:
        return module(inputs["x"], given)[0]
    packed = pack_padded_sequence(inputs["x"], inputs["lengths"], batch_first=True, enforce_sorted=False)
    return pad_packed_sequence(module(packed, given)[0], batch_first=True, total_length=inputs["x"].shape[1])[0]


def by_pytorch(module, inputs, c):
    """In training, where no faster way is taken than the textbook's."""
    module.train()
    if c["module"] in ("gru", "lstm"):
        return recurrent_by_pytorch(module, inputs)
    forbidden = forbidden_pairs(inputs, c)
    padding = None if not c["lengths"] else torch.arange(c["m"]) >= inputs["lengths"][:, None]
    if c["module"] == "multi-head-attention":
        memory = inputs.get("memory", inputs["x"])
        values = inputs.get("value_memory", memory)
        return module(inputs["x"], memory, values, attn_mask=forbidden, key_padding_mask=padding)[0]
    name = "mask" if c["module"] == "encoder" else "src_mask"
    return module(inputs["x"], **{name: forbidden}, src_key_padding_mask=padding)


def output_by_pytorch(family, module, inputs, c):
    with torch.no_grad():
        return family.by_pytorch(module, inputs, c)


def flags_of(c):
    if c["module"] in ("gru", "lstm"):
        return ["--prefix", c["prefix"]] if c["prefix"] else []
    flags = ["--heads", c["heads"]] + ([] if c["mask"] == "none" else ["--mask", c["mask"]])
    if c["prefix"]:
        flags += ["--prefix", c["prefix"]]
    if c["module"] != "multi-head-attention":
        flags += ["--norm", c["norm"], "--activation", c["activation"], "--epsilon", c["epsilon"]]
    if c["module"] == "encoder":
        flags += ["--layers", c["layers"]]
    return [str(flag) for flag in flags]


def call(*command):
    run = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if run.returncode != 0:
        line = " ".join(str(word) for word in command)
        raise Mismatch(f"{line}: exit code {run.returncode}\n{run.stdout}{run.stderr}")
    return run.stdout


def expect(what, found, expected):
    """To 1e-12 of the largest number."""
    found, expected = np.asarray(found), np.asarray(expected)
    if found.shape != expected.shape:
        raise Mismatch(f"{what} has the shape {found.shape}, expected {expected.shape}")
    error, size = np.max(np.abs(found - expected)), np.max(np.abs(expected))
    if not error <= 1e-12 * size:
        raise Mismatch(f"{what} is wrong by {error} of {size}:\n{found}\n{expected}")
    return error / size


def run_attn(attn, folder, module, weights, inputs, flags):
    """The output of `attn run MODULE` with a file of weights."""
    trace = folder / "trace.npz"
    by_sequence = lambda name, tensor: "--heads" in flags and name.endswith("mask") and tensor.dim() == 3
    np.savez(folder / "inputs.npz", **{name: (tensor[:, None] if by_sequence(name, tensor) else tensor).numpy()
                                       for name, tensor in inputs.items()})  # (b, n, m) could be (h, n, m)
    files = ["--input", folder / "inputs.npz", "--weights", weights, "--trace", trace]
    if printed := call(attn, "run", module, *files, *flags, "--quiet"):
        raise Mismatch(f"attn run --quiet prints:\n{printed}")
    call(attn, "verify", trace)
    return np.load(trace)["output"]


def there(attn, folder, c, module, inputs, flags):
    """`attn run` on the module's own state_dict, inside of a larger model where there is a prefix."""
    weights = folder / f"weights{c['ending']}"
    model = nn.ModuleDict({c["prefix"][:-1]: module}) if c["prefix"] else module
    save(weights, {name: tensor.to(c["type"]) for name, tensor in model.state_dict().items()})
    return weights, run_attn(attn, folder, c["module"], weights, inputs, flags)


def back(rewrite, folder, c, weights):
    """A new module with what attn wrote: in float64, of the other kind of file."""
    written = folder / f"written{'.npz' if c['ending'] == '.safetensors' else '.safetensors'}"
    sizes = [c["d_model"], c.get("d_memory", c["d_model"]), c.get("d_value", c["d_model"])]
    call(rewrite, c["module"], weights, written, *sizes, *([c["prefix"]] if c["prefix"] else []))
    module = c["make"]().double()
    module.load_state_dict(load(written), strict=True)
    return module


def expect_same_tensors(returned, module):
    for name, tensor in module.state_dict().items():
        if not torch.equal(returned.state_dict()[name], tensor):
            raise Mismatch(f"{name} comes back with other numbers")


def report(configuration, error):
    digits = math.inf if error == 0 else -math.log10(error)
    print(f"{configuration}: {digits:.1f} digits agree", flush=True)


def check(family, attn, rewrite, number, seed):
    """One configuration. The family draws it, draws its inputs, runs PyTorch's module and says what flags attn takes."""
    draw = random.Random(1000 * seed + number)
    torch.manual_seed(1000 * seed + number)
    c = family.draw_configuration(draw, number)
    try:
        module, inputs = with_weights(c["make"](), c["type"]), family.draw_inputs(draw, c)
        expected = output_by_pytorch(family, module, inputs, c)
        with tempfile.TemporaryDirectory() as folder:
            weights, output = there(attn, Path(folder), c, module, inputs, family.flags_of(c))
            error = expect("attn's output", output, expected)
            returned = back(rewrite, Path(folder), c, weights)
        expect_same_tensors(returned, module)
        expect("the output with weights that attn wrote", output_by_pytorch(family, returned, inputs, c), expected)
    except Mismatch as mismatch:
        raise Mismatch(f"configuration {number} of seed {seed}: {described(c)}\n{mismatch}") from mismatch
    report(described(c), error)


def main(arguments, usage, check, configurations, seed):
    """Checks so many configurations, of the seed unless another one is asked for."""
    if len(arguments) not in (2, 3):
        print(usage, file=sys.stderr)
        return 2
    attn, rewrite, *asked = arguments
    try:
        for number in range(configurations):
            check(attn, rewrite, number, int(asked[0]) if asked else seed)
    except Mismatch as mismatch:
        print(mismatch)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], __doc__, functools.partial(check, sys.modules[__name__]), 16, seed=1373))
