"""Makes the goldens of lesson 31: numbers, keys, values and weights in fewer bits, and float8 number by number.

By PyTorch and NumPy in float64. float8 is looked up among all of its 256 codes, as the paper and OCP's standard define them; where there is
Google's ml_dtypes, its codes have to be the same. The small model's probabilities are those of lessons/31_fewer_bits/measured.py.
"""

import importlib.util

import numpy as np
import torch

from case import within
from small_model import FOLDER, decoder

HEAD = "exact.layers.1.self_attn.head.0"
PROMPT = "Lily had a red ball and a blue kite . She took the blue"
NUMBERS = np.array([[0.02, 0.3, -1.1, 2.6, -7, 30, 100]])
CHANNEL, FACTOR = 2, 16.0
WHOLE = {"int8": 127, "int4": 7, "uint8": 255, "uint4": 15, "uint2": 3}


def measured():
    spec = importlib.util.spec_from_file_location("measured", FOLDER.parent / "31_fewer_bits" / "measured.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# -------------------------------------------------------------------------------------------------------------- float8


def values_of(exponent_digits, digits, bias, has_infinity):
    """The number of each code 0 to 127, by sign, exponent and mantissa (Micikevicius et al. 2022, table 1)."""
    values = []
    for code in range(128):
        exponent, mantissa = code >> digits, code & ((1 << digits) - 1)
        is_last = exponent == (1 << exponent_digits) - 1
        if is_last and has_infinity:
            values.append(np.inf if mantissa == 0 else np.nan)
        elif is_last and mantissa == (1 << digits) - 1:
            values.append(np.nan)
        elif exponent == 0:
            values.append(mantissa * 2.0 ** (1 - bias - digits))
        else:
            values.append((1 + mantissa * 2.0**-digits) * 2.0 ** (exponent - bias))
    return np.array(values)


CODES = {"float8_e4m3": values_of(4, 3, 7, False), "float8_e5m2": values_of(5, 2, 15, True)}


def float8(kind, x):
    """The nearest code, of two the even one; what lies beyond the largest as if the codes went on."""
    values = CODES[kind][np.isfinite(CODES[kind])]
    beyond = 2 * values[-1] - values[-2]  # the number that the code after the largest would be
    grid = np.append(values, beyond)

    def one(number):
        size = abs(number)
        if not np.isfinite(size):
            return number
        distance = np.abs(grid - size)
        near = np.flatnonzero(distance == distance.min())
        code = near[near % 2 == 0][0] if len(near) > 1 else near[0]
        if code == len(values) or size > beyond:
            return np.copysign(CODES[kind][len(values)], number)
        return np.copysign(grid[code], number)

    return np.vectorize(one, otypes=[float])(x)


def expect_ml_dtypes(x):
    try:
        import ml_dtypes
    except ImportError:
        return
    for kind, dtype in (("float8_e4m3", ml_dtypes.float8_e4m3fn), ("float8_e5m2", ml_dtypes.float8_e5m2)):
        np.testing.assert_array_equal(float8(kind, x), x.astype(dtype).astype(float))


def float8_numbers():
    """Every code, the middle between each two, numbers beside it, and beyond the largest."""
    golden = {}
    for kind, values in CODES.items():
        finite = values[np.isfinite(values)]
        middles = (finite[1:] + finite[:-1]) / 2
        edge = finite[-1] + (finite[-1] - finite[-2]) * np.array([0.25, 0.5, 0.75, 1.0, 2.0])
        sizes = np.concatenate([finite, middles, np.nextafter(middles, 0), np.nextafter(middles, np.inf), edge])
        x = np.concatenate([sizes, -sizes])
    
        golden |= {f"{kind}/x": x, f"{kind}/expected": float8(kind, x)}
    return golden


# ------------------------------------------------------------------------------------------------------------ quantise


def scaled(x, kind, axes):
    """What codes and scales there are, and what is read back."""
    x = np.asarray(x)
    of = lambda reduce, x: reduce(x, axis=axes, keepdims=True)
    if kind.startswith("float8"):
        limit = of(np.max, np.abs(x))
        scale = np.where(limit > 0, limit, 1) / {"float8_e4m3": 448, "float8_e5m2": 57344}[kind]
        codes = float8(kind, x / scale)
        return {"limit": limit, "scale": scale, "codes": codes}, codes * scale
    tensor = torch.from_numpy(np.ascontiguousarray(x))
    if kind.startswith("u"):
        lowest, highest = of(np.min, x), of(np.max, x)
        scale = np.where(highest > lowest, highest - lowest, 1) / WHOLE[kind]
        codes = torch.round((tensor - torch.from_numpy(lowest)) / torch.from_numpy(scale)).numpy()
        return {"lowest": lowest, "highest": highest, "scale": scale, "codes": codes}, codes * scale + lowest
    limit = of(np.max, np.abs(x))
    scale = np.where(limit > 0, limit, 1) / WHOLE[kind]
    codes = torch.round(tensor / torch.from_numpy(scale)).numpy()
    return {"limit": limit, "scale": scale, "codes": codes}, codes * scale


AXES = {"token": 1, "channel": 0, "tensor": (0, 1)}


def quantized(x, text):
    """The steps of quantize() after x."""
    kind, _, shared = text.partition(":")
    scale = shared.rstrip("0123456789")
    if scale == "":
        rounded = torch.from_numpy(x).to(torch.bfloat16).double().numpy() if kind == "bfloat16" else float8(kind, x)
        return {"stored": rounded}
    if scale == "block":
        blocks = x.reshape(-1, int(shared.removeprefix("block")))
        steps, stored = scaled(blocks, kind, 1)
        return {"blocks": blocks} | steps | {"stored": stored.reshape(x.shape)}
    steps, stored = scaled(x, kind, AXES[scale])
    return steps | {"stored": stored}


def quantize_cases():
    """Formats of all kinds, on numbers of which a row is zero and another has equals."""
    x = np.random.RandomState(31).standard_normal((5, 8)) * 4
    x[1] = 0
    x[2] = 1.5
    x[:, 3] *= 20
    formats = ["float8_e4m3", "float8_e5m2", "float8_e4m3:channel1", "float8_e5m2:block4", "int8:token", "int8:tensor", "int4:channel1",
               "int4:block4", "uint8:channel1", "uint4:block2", "uint2:token"]  # fmt: skip
    golden = {"x": x}
    for text in formats:
        golden |= {f"{text}/{name}": step for name, step in quantized(x, text).items()}
    return golden


def cases():
    return within_slash("numbers", float8_numbers()) | within_slash("quantize", quantize_cases())


def within_slash(scope, arrays):
    return {f"{scope}/{name}": np.asarray(array) for name, array in arrays.items()}


# -------------------------------------------------------------------------------------------------------------- lesson


def softmax(x):
    return torch.softmax(torch.from_numpy(x), dim=-1).numpy()


def root_mean_square(x):
    return np.sqrt(np.mean(x**2))


def head_in(queries, keys):
    """The scores, and the steps of each scale."""
    score = lambda k: np.einsum("nd,md->nm", queries, k) / np.sqrt(keys.shape[-1])
    right, steps = score(keys), {}
    for name, text in (("token", "int4:token"), ("block", "int4:block4"), ("channel", "int4:channel1")):
        of_keys = quantized(keys, text)
        found = score(of_keys["stored"])
        steps |= within(name, {"queries": queries, "x": keys} | of_keys | {"scores": found, "off": root_mean_square(found - right)})
    return right, steps


def hadamard(d):
    h = np.ones((1, 1))
    while len(h) < d:
        h = np.kron(np.array([[1, 1], [1, -1]]), h)
    return h / np.sqrt(d)


def in_scopes():
    """Of the three forms of the head: scopes begin with what there is of each, and go on with what was compared."""
    of_model = measured()
    ids = [of_model.ID[word] for word in PROMPT.split()]
    exact = decoder(ids, FOLDER / "model.safetensors")
    exact |= {"chances": softmax(exact["logits"])}
    inside = {name.removeprefix("layers.1.self_attn.head.0."): step for name, step in exact.items()}
    queries, keys, values = inside["queries"], inside["keys"], inside["values"]
    factors = np.where(np.arange(8) == CHANNEL, FACTOR, 1.0)
    rotation = hadamard(8)
    raised = (queries / factors, keys * factors)
    rotated = tuple(part @ rotation for part in raised)
    golden = {"numbers": NUMBERS, "types.numbers": NUMBERS}
    for name, text in (("bfloat16", "bfloat16"), ("e4m3", "float8_e4m3"), ("e5m2", "float8_e5m2"), ("int8", "int8:token"), ("int4", "int4:token")):
        steps = quantized(NUMBERS, text)
        golden |= within(f"types.{name}", {"x": NUMBERS} | steps | {"off": np.abs(steps["stored"] - NUMBERS)})
    golden |= {"ids": ids} | within("exact", exact) | {"plain.queries": queries, "plain.keys": keys, "channel": [CHANNEL], "factor": [FACTOR]}
    golden |= within("raised", {"channel": [CHANNEL], "factor": [FACTOR], "factors": factors, "keys": raised[1], "queries": raised[0]})
    golden |= within("rotated", {"rotation": rotation, "keys": rotated[1], "queries": rotated[0]})
    compared = {name: head_in(*head) for name, head in {"plain": (queries, keys), "raised": raised, "rotated": rotated}.items()}
    golden |= {f"{name}.scores": scores for name, (scores, _) in compared.items()}
    for name, (_, steps) in compared.items():
        golden |= within(name, steps)

    for name, text in (("token", "int4:token"), ("channel", "int4:channel1")):
        steps = quantized(values, text)
        context = inside["weights"] @ steps["stored"]
        golden |= within(f"values.{name}", {"x": values} | steps | {"context": context, "off": root_mean_square(context - inside["context"])})

    model = of_model.small_model()
    last = lambda **how: of_model.read(model, torch.tensor([ids]), **how)[0, -1].softmax(0)[of_model.ID["kite"]].item()
    golden |= {"kite": [[last(cache=cache, variant=variant) for cache in of_model.CACHES] for variant in ("own", "raised", "rotated")]}

    matrix = exact["layers.1.feed_forward.hidden_weights"].T
    golden |= {"weights.matrix": matrix}
    for name, text in (("tensor", "int4:tensor"), ("output", "int4:token"), ("block", "int4:block8")):
        steps = quantized(matrix, text)
        golden |= within(f"weights.{name}", {"x": matrix} | steps | {"off": root_mean_square(steps["stored"] - matrix)})

    code, beside, shared = np.array([16, 8, 8, 4, 4, 2]), np.array([0, 0, 16, 16, 16, 32]), np.array([1, 1, 1024, 1024, 32, 32])
    numbers = sum(2 * 8 * 128 for _ in range(32)) * 131072
    gib = [(numbers * bits + numbers // each * more) / 8 / 2**30 for bits, more, each in zip(code, beside, shared)]
    golden |= within("bytes", {"layers": 32, "groups": 8, "d_k": 128, "tokens": 131072, "numbers": numbers, "code": code, "beside": beside,
                               "shared": shared, "bits": code + beside / shared, "gib": gib})  # fmt: skip
    return golden


def lesson_31():
    return {name: np.asarray(array) for name, array in in_scopes().items()}
