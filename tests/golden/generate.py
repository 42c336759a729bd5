#!/usr/bin/env python3
"""Makes the goldens: what every step of every lesson, and every attention function, has to give.

    generate.py [NAME ...]            writes those of tests/golden/NAME.npz whose numbers are others now; without a name, all
    generate.py --check [NAME ...]    only compares what is committed with what PyTorch and NumPy give now; 1 where they differ

Numbers are others where they differ by more than 1e-12 of their size: PyTorch adds in another order on another processor, so
that the last bits of a sum say nothing.

In float64, by PyTorch and NumPy from the mathematics; nothing here reads a trace, runs a program of attn, or knows a
formula's text. Where PyTorch has the whole function, its result is held against the steps that lead to it.
"""

import io
import sys
import zipfile
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

import backward
import decoder
import experts
import flash
import gated_attention
import gated_delta_net
import latent_attention
import layers
import lessons
import machines
import recurrent
import restricted
import llama
import sinks
import small_model
import smaller_caches
import mixture
import states
import training
import windows

HERE = Path(__file__).resolve().parent

INPUTS = np.array([[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]], float)
KEY_WEIGHTS = np.array([[0, 0, 1], [1, 1, 0], [0, 1, 0], [1, 1, 0]], float)
QUERY_WEIGHTS = np.array([[1, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 1]], float)
VALUE_WEIGHTS = np.array([[0, 2, 0], [0, 3, 0], [1, 0, 3], [1, 1, 0]], float)


def softmax(x, axis=-1):
    return torch.softmax(torch.from_numpy(np.asarray(x, float)), dim=axis).numpy()


def expect(found, expected, tolerance=1e-12):
    """A published number, or PyTorch's own."""
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


# ------------------------------------------------------------------------------------------------------------ lessons


def single_query():
    query = np.einsum("d,dk->k", INPUTS[0], QUERY_WEIGHTS)
    keys = np.einsum("md,dk->mk", INPUTS, KEY_WEIGHTS)
    values = np.einsum("md,dv->mv", INPUTS, VALUE_WEIGHTS)
    scores = np.einsum("mk,k->m", keys, query)
    weights = softmax(scores)
    weighted = np.einsum("m,mv->mv", weights, values)
    output = np.einsum("m,mv->v", weights, values)
    rounded = np.array([0, 0.5, 0.5])
    rounded_output = np.einsum("m,mv->v", rounded, values)
    divided = (scores - 3) / (scores - 3).sum()

    expect(scores, [2, 4, 4])
    expect(weights, [0.06337894, 0.46831053, 0.46831053], 1e-8)
    expect(output, [1.93662106, 6.68310531, 1.59506841], 1e-8)
    expect(rounded_output, [2.0, 7.0, 1.5])
    return {
        "inputs": INPUTS, "key_weights": KEY_WEIGHTS, "query_weights": QUERY_WEIGHTS, "value_weights": VALUE_WEIGHTS,
        "first_input": INPUTS[0], "query": query, "keys": keys, "values": values, "scores": scores, "weights": weights,
        "weighted_values": weighted, "output": output, "rounded.weights": rounded, "rounded.output": rounded_output,
        "rounding": rounded_output - output, "divided.scores": scores - 3, "divided.weights": divided,
        "divided.output": np.einsum("m,mv->v", divided, values),
    }  # fmt: skip


def all_queries():
    queries, keys, values = INPUTS @ QUERY_WEIGHTS, INPUTS @ KEY_WEIGHTS, INPUTS @ VALUE_WEIGHTS
    scores = np.einsum("nk,mk->nm", queries, keys)
    weights = softmax(scores)
    output = np.einsum("nm,mv->nv", weights, values)
    expect(scores, [[2, 4, 4], [4, 16, 12], [4, 12, 10]])
    expect(weights, [[6.3379e-02, 4.6831e-01, 4.6831e-01], [6.0337e-06, 9.8201e-01, 1.7986e-02], [2.9539e-04, 8.8054e-01, 1.1917e-01]], 1e-4)
    expect(output, [[1.93662106, 6.68310531, 1.59506841], [1.99999397, 7.96399160, 0.05397641], [1.99970461, 7.75989225, 0.35838929]], 1e-8)

    golden = {
        "inputs": INPUTS, "query_weights": QUERY_WEIGHTS, "key_weights": KEY_WEIGHTS, "value_weights": VALUE_WEIGHTS,
        "queries": queries, "keys": keys, "values": values, "scores": scores, "merged": np.einsum("ik,jk->ij", QUERY_WEIGHTS, KEY_WEIGHTS),
        "merged_scores": scores, "weights": weights, "output": output,
    }  # fmt: skip
    # Scores that are not symmetric, so that softmax along the wrong axis is not the right one transposed.
    other = {"queries": np.array([[1.0, 0], [0, 2], [1, 1]]), "keys": np.array([[2.0, 0], [1, 1], [0, 1]]), "values": np.array([[1.0, 0], [0, 1], [2, 2]])}
    other["scores"] = np.einsum("nk,mk->nm", other["queries"], other["keys"])
    for scope, axis in (("other", 1), ("wrong", 0)):
        shares = softmax(other["scores"], axis=axis)
        steps = {"weights": shares, "sums": shares.sum(axis=1), "output": shares @ other["values"]}
        golden |= {f"{scope}.{name}": array for name, array in (other if scope == "other" else {}).items()}
        golden |= {f"{scope}.{name}": array for name, array in steps.items()}
    for i in (2, 1, 0):
        alone = softmax(np.array([np.dot(key, queries[i]) for key in keys]))
        golden |= {f"alone.{i}.query": queries[i], f"alone.{i}.weights": alone, f"alone.{i}.output": sum(a * v for a, v in zip(alone, values))}

    columns = {"I": INPUTS.T, "W_q": QUERY_WEIGHTS.T, "W_k": KEY_WEIGHTS.T, "W_v": VALUE_WEIGHTS.T}
    columns |= {name: columns[f"W_{name.lower()}"] @ columns["I"] for name in "QKV"}
    columns["A"] = columns["K"].T @ columns["Q"]
    columns["A_normalized"] = softmax(columns["A"], axis=0)
    columns["O"] = columns["V"] @ columns["A_normalized"]
    golden |= {f"columns.{name}": array for name, array in columns.items()}

    rounded = np.array([[0, 0.5, 0.5], [0, 1, 0], [0, 0.9, 0.1]])
    expect(rounded @ values, [[2, 7, 1.5], [2, 8, 0], [2, 7.8, 0.3]])
    return golden | {"rounded.weights": rounded, "rounded.output": rounded @ values, "rounding": rounded @ values - output}


def jacobian(scores):
    """By automatic differentiation."""
    return torch.autograd.functional.jacobian(lambda x: torch.softmax(x, dim=-1), torch.from_numpy(scores)).numpy()


def scale_and_softmax():
    stored = np.load(lessons.LESSONS / "03_scale_and_softmax" / "inputs.npz")
    all_queries, all_keys = stored["queries"].astype(float), stored["keys"].astype(float)
    for numbers in (all_queries, all_keys):
        assert abs(numbers.mean()) < 0.02 and abs(numbers.var() - 1) < 0.02, "not of mean 0 and variance 1"
    golden = {"queries": all_queries, "keys": all_keys, "query_variance": np.var(all_queries), "key_variance": np.var(all_keys)}

    def softened(scores):
        weights = softmax(scores)
        diagonals = np.array([np.trace(jacobian(row)) for row in scores])
        return {"weights": weights, "largest": weights.max(axis=1).mean(), "slope": diagonals.mean()}

    for d_k in (4, 16, 64, 256, 1024):
        queries, keys = all_queries[:, :d_k], all_keys[:, :d_k]
        scores = np.einsum("nk,mk->nm", queries, keys)
        assert abs(scores.var() / d_k - 1) < 0.1, "the dot products do not have the variance d_k"
        steps = {"queries": queries, "keys": keys, "scores": scores, "mean": scores.mean(), "variance": scores.var()} | softened(scores)
        golden |= {f"d_k.{d_k}.{name}": array for name, array in steps.items()}
        for scope, divisor in (("by_root", np.sqrt(d_k)), ("by_d_k", d_k)):
            scaled = scores / divisor
            divided = {"scaled": scaled, "variance": scaled.var()} | softened(scaled)
            golden |= {f"d_k.{d_k}.{scope}.{name}": array for name, array in divided.items()}

    row = np.array([1.0, 2, 3])
    golden["row"] = row
    for factor in (1, 4, 16):
        golden |= {f"times.{factor}.scores": factor * row, f"times.{factor}.weights": softmax(factor * row), f"times.{factor}.jacobian": jacobian(factor * row)}

    large = np.array([1000.0, 1001, 1002])
    with np.errstate(over="ignore", invalid="ignore"):
        naive = np.exp(large)
        golden |= {"large.scores": large, "large.naive.exponentials": naive, "large.naive.weights": naive / naive.sum()}
    shifted = large - 1002
    golden |= {"large.shifted.scores": shifted, "large.shifted.exponentials": np.exp(shifted), "large.shifted.weights": softmax(large)}
    return golden


def scoring():
    queries = np.array([[1.0, 0, 2], [2, 2, 2], [2, 1, 3]])
    keys = np.array([[0.0, 1, 1], [4, 4, 0], [2, 3, 1]])
    values = np.array([[1.0, 2, 3], [2, 8, 0], [2, 6, 3]])
    query_weights = np.array([[0.5, -0.25, 0, 0.25], [0, 0.5, -0.5, 0.25], [-0.25, 0, 0.5, 0.25]])
    key_weights = np.array([[0.25, 0, -0.25, 0.5], [0.25, -0.5, 0, 0], [0, 0.5, 0.25, -0.5]])
    score_weights = np.array([1, -1, 2, 0.5])
    short_queries = np.array([[1.0, 2], [2, 2], [0, 1]])
    bilinear_weights = np.array([[0.5, 0, -0.5], [0, 0.25, 0.5]])
    short_query_weights = np.array([[0.5, 0, -0.5, 0.25], [-0.25, 0.5, 0.25, 0]])

    golden = {"queries": queries, "keys": keys, "values": values}

    def add(scope, steps):
        golden.update({f"{scope}.{name}": array for name, array in steps.items()})

    given = {"queries": queries, "keys": keys, "values": values}
    add("dot", given | dot_product(queries, keys, values))
    add("scaled_dot", given | scaled_dot_product(queries, keys, values))
    golden |= {"query_weights": query_weights, "key_weights": key_weights, "score_weights": score_weights}

    query, key = queries[0], keys[0]
    hidden = np.tanh(query @ query_weights + key @ key_weights)
    add("pair", {
        "query": query, "key": key, "query_part": query @ query_weights, "key_part": key @ key_weights, "hidden": hidden,
        "score": np.dot(hidden, score_weights), "both": np.concatenate([query, key]),
        "both_hidden": np.tanh(np.concatenate([query, key]) @ np.concatenate([query_weights, key_weights])),
    })  # fmt: skip

    weights = {"query_weights": query_weights, "key_weights": key_weights, "score_weights": score_weights}
    add("additive", given | weights | additive(queries, keys, values, **weights))
    stacked = np.concatenate([query_weights, key_weights])
    joined = {"hidden_weights": stacked, "score_weights": score_weights}
    add("concatenated", given | joined | concatenated(queries, keys, values, **joined))

    golden |= {"short_queries": short_queries, "bilinear_weights": bilinear_weights}
    short = given | {"queries": short_queries}
    add("bilinear", short | {"bilinear_weights": bilinear_weights} | bilinear(short_queries, keys, values, bilinear_weights))
    golden["short_query_weights"] = short_query_weights
    weights["query_weights"] = short_query_weights
    add("short_additive", short | weights | additive(short_queries, keys, values, **weights))

    plain = dot_product(queries, keys, values, normalized=False)
    add("unnormalized", given | plain | {"keys_with_values": keys.T @ values, "regrouped": queries @ (keys.T @ values)})

    n = m = 128
    d = h = 64
    add("cost", {
        "n": n, "m": m, "d": d, "d_hidden": h, "dot": n * m * d, "scaled": n * m * d + n * m, "bilinear": n * d * d + n * m * d,
        "additive": n * d * h + m * d * h + n * m * h, "additive_tanhs": n * m * h,
        "concatenated": n * m * 2 * d * h + n * m * h, "ratio": (n * d * h + m * d * h + n * m * h) / (n * m * d),
    })  # fmt: skip
    return golden


# ------------------------------------------------------------------------------------------------ attention functions


def weigh(scores, values, mask=None, normalized=True):
    """The steps after the scores."""
    scores = torch.from_numpy(np.asarray(scores, float))
    steps = {}
    if mask is not None:
        allowed = torch.from_numpy(mask)
        scores = scores.masked_fill(~allowed, -np.inf if normalized else 0.0)
        steps |= {"mask": mask, "masked": scores.numpy()}
    weights = torch.softmax(scores, dim=-1).nan_to_num(0.0) if normalized else scores  # PyTorch: NaN where nothing is allowed
    return steps | {"weights": weights.numpy(), "context": (weights @ torch.from_numpy(values)).numpy()}


def dot_product(queries, keys, values, mask=None, normalized=True):
    scores = np.einsum("nk,mk->nm", queries, keys)
    return {"scores": scores} | weigh(scores, values, mask, normalized)


def scaled_dot_product(queries, keys, values, mask=None, scale=None):
    scores = np.einsum("nk,mk->nm", queries, keys)
    scaled = scores / np.sqrt(keys.shape[1]) if scale is None else scores * scale
    steps = {"scores": scores, "scaled": scaled} | weigh(scaled, values, mask)
    if hasattr(F, "scaled_dot_product_attention") and scale is None and (mask is None or mask.any(axis=1).all()):
        tensors = [torch.from_numpy(x)[None] for x in (queries, keys, values)]
        allowed = None if mask is None else torch.from_numpy(mask)
        expect(steps["context"], F.scaled_dot_product_attention(*tensors, attn_mask=allowed)[0].numpy())
    return steps


def additive(queries, keys, values, query_weights, key_weights, score_weights, mask=None):
    """By PyTorch's linear layers, a pair at a time."""
    project = lambda x, weights: F.linear(torch.from_numpy(x), torch.from_numpy(weights).T)
    query_part, key_part = project(queries, query_weights), project(keys, key_weights)
    hidden = torch.stack([torch.stack([torch.tanh(q + k) for k in key_part]) for q in query_part])
    scores = F.linear(hidden, torch.from_numpy(score_weights)[None])[..., 0]
    steps = {"query_part": query_part, "key_part": key_part, "hidden": hidden, "scores": scores}
    return {name: tensor.numpy() for name, tensor in steps.items()} | weigh(scores.numpy(), values, mask)


def concatenated(queries, keys, values, hidden_weights, score_weights, mask=None):
    pairs = np.array([[np.concatenate([q, k]) for k in keys] for q in queries])
    hidden = np.tanh(np.einsum("nmp,ph->nmh", pairs, hidden_weights))
    scores = np.einsum("nmh,h->nm", hidden, score_weights)
    return {"pairs": pairs, "hidden": hidden, "scores": scores} | weigh(scores, values, mask)


def bilinear(queries, keys, values, bilinear_weights, mask=None):
    scores = F.bilinear(
        *(torch.from_numpy(np.ascontiguousarray(x)) for x in (np.repeat(queries, len(keys), axis=0), np.tile(keys, (len(queries), 1)))),
        torch.from_numpy(bilinear_weights)[None],
    ).numpy().reshape(len(queries), len(keys))  # fmt: skip
    return {"projected": queries @ bilinear_weights, "scores": scores} | weigh(scores, values, mask)


def numbers(*shape, seed):
    """Stored with the golden, so that it matters to nobody how they are made."""
    return np.round(np.random.RandomState(seed).standard_normal(shape) * 64) / 64


def attention():
    """Each function on sizes that tell axes apart: n, m, d_q, d_k, d_v, with and without a mask."""
    golden = {}
    sizes = {"one": (1, 1, 1, 1), "few_queries": (2, 5, 3, 4), "one_key": (4, 1, 3, 2), "odd": (7, 5, 3, 11)}
    for case, (n, m, d_k, d_v) in sizes.items():
        queries, keys, values = numbers(n, d_k, seed=n), numbers(m, d_k, seed=10 + m), numbers(m, d_v, seed=20 + d_v)
        wide = numbers(n, d_k + 2, seed=30 + n)
        causal = np.tril(np.ones((n, m), bool), m - n)  # bottom-right: the last query sees every key
        padding = np.broadcast_to(np.arange(m) < max(1, m - 2), (n, m)).copy()
        starved = padding.copy()
        starved[0] = False
        for name, mask in {"all": None, "causal": causal, "padding": padding, "starved": starved}.items():
            h = 3
            learned = {"query_weights": numbers(d_k + 2, h, seed=41), "key_weights": numbers(d_k, h, seed=42), "score_weights": numbers(h, seed=43)}
            stacked = {"hidden_weights": np.concatenate([learned["query_weights"], learned["key_weights"]]), "score_weights": learned["score_weights"]}
            middle = {"bilinear_weights": numbers(d_k + 2, d_k, seed=44)}
            functions = {
                "dot_product": (queries, {}, dot_product),
                "scaled_dot_product": (queries, {}, scaled_dot_product),
                "additive": (wide, learned, additive),
                "concatenated": (wide, stacked, concatenated),
                "bilinear": (wide, middle, bilinear),
            }
            for function, (asking, weights, compute) in functions.items():
                given = {"queries": asking, "keys": keys, "values": values} | weights
                steps = given | compute(asking, keys, values, **weights, mask=mask)
                golden |= {f"{function}.{case}.{name}.{step}": array for step, array in steps.items()}
    return golden


GOLDENS = {
    "01_single_query": single_query,
    "02_all_queries": all_queries,
    "03_scale_and_softmax": scale_and_softmax,
    "04_scoring": scoring,
    "05_masking": lessons.masking,
    "06_multi_head": lessons.multi_head,
    "07_self_and_cross": lessons.self_and_cross,
    "08_positions": lambda: sampled(lessons.positions()),
    "09_feed_forward_and_norm": lessons.feed_forward_and_norm,
    "10_encoder_layer": lessons.encoder_layer,
    "11_encoder_stack": lambda: sampled(lessons.encoder_stack()),
    "23_pitfalls": lessons.pitfalls,
    "12_decoder": decoder.lesson_12,
    "13_transformer": decoder.lesson_13,
    "14_gradients": lambda: sampled(backward.lesson_14()),
    "20_restricted": restricted.lesson_20,
    "21_recurrence": recurrent.lesson,
    "16_rotary_and_alibi": lessons.rotary_and_alibi,
    "22_low_rank_and_talking_heads": restricted.lesson_22,
    "24_smaller_caches": smaller_caches.lesson_24,
    "25_windows_and_sinks": lambda: sampled(windows.lesson_25()),
    "26_experts": lambda: sampled(mixture.lesson_26()),
    "27_state": states.lesson_27,
    "17_story": llama.story,
    "18_flash_attention": flash.lesson_18,
    "19_across_machines": machines.lesson_19,
    "19_on_ranks": machines.lesson_19_on_ranks,
    "attention": attention,
    "layers": layers.layers,
    "recurrent": recurrent.recurrences,
    "convolution": recurrent.convolutions,
    "restricted": restricted.cases,
    "decoder": decoder.cases,
    "llama": llama.llama_golden,
    "experts": experts.cases,
    "latent_attention": latent_attention.cases,
    "gated_attention": gated_attention.cases,
    "gated_delta_net": gated_delta_net.cases,
    "sinks": sinks.cases,
    "small_model": lambda: sampled(small_model.small_model()),
    "training": training.training,
    "15_training": lambda: sampled(training.lesson_15()),
    "stories": training.stories,
}

# -------------------------------------------------------------------------------------------------------------- files


def sampled(golden, most=256):
    """A large array NAME as NAME~: rank, sizes, mean, standard deviation, least, greatest, and every so many-th number."""
    small = {}
    for name, array in golden.items():
        array = np.asarray(array)
        if array.size <= most:
            small[name] = array
            continue
        with np.errstate(invalid="ignore"):  # minus infinity where a mask forbids
            statistics = [array.mean(), array.std(), array.min(), array.max()]
        stride = -(-array.size // 32)
        small[f"{name}~"] = np.concatenate([[array.ndim], array.shape, statistics, array.reshape(-1)[::stride]])
    return small


def path_of(name):
    return training.STORIES if name == "stories" else HERE / f"{name}.npz"


def write(path, golden):
    """As numpy.savez_compressed does, but always the same bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, array in golden.items():
            data = io.BytesIO()
            array = np.asarray(array)
            np.save(data, array if array.dtype in (bool, np.uint8) else array.astype(np.float64))
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0)), data.getvalue(), zipfile.ZIP_DEFLATED)


def difference(path, golden):
    """What is not as committed; empty where all is."""
    if not path.exists():
        return "missing"
    committed = np.load(path)
    if committed.files != list(golden):
        others = sorted(set(committed.files) ^ set(golden))
        return f"has other steps, or another order: {len(others)} are in one of them only, such as {others[:3]}"
    for name, array in golden.items():
        array = np.asarray(array)
        if committed[name].shape != array.shape:
            return f"{name} has another shape"
        scale = np.max(np.abs(array[np.isfinite(array)]), initial=1) if array.dtype != bool else 0
        # A number near zero has the roundings of those that it is the difference of, which processors add in different orders.
        if not np.allclose(committed[name].astype(float), array.astype(float), rtol=1e-12, atol=1e-13 * scale, equal_nan=True):
            return f"{name} has other numbers"
    return ""


def main(arguments):
    checks = arguments[:1] == ["--check"]
    names = arguments[checks:]
    for name in names:
        if name not in GOLDENS:
            print(f"script/regenerate-goldens: it makes no golden {name}; those that it makes are {', '.join(sorted(GOLDENS))}", file=sys.stderr)
            return 2
    failed = False
    for name in names or GOLDENS:
        path, golden = path_of(name), GOLDENS[name]()
        found = difference(path, golden)
        if not found:
            print(f"{path.name}: {len(golden)} arrays as committed")
        elif checks:
            print(f"{path.name}: {found}: script/regenerate-goldens {name} writes it anew")
            failed = True
        else:
            write(path, golden)
            print(f"{path.name}: {found}, now written")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
