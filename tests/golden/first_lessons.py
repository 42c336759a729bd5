"""What the steps of lessons 1 to 4 have to give."""

import numpy as np
import torch

import lessons
from attention import additive, bilinear, concatenated, dot_product, expect, scaled_dot_product, softmax

INPUTS = np.array([[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]], float)
KEY_WEIGHTS = np.array([[0, 0, 1], [1, 1, 0], [0, 1, 0], [1, 1, 0]], float)
QUERY_WEIGHTS = np.array([[1, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 1]], float)
VALUE_WEIGHTS = np.array([[0, 2, 0], [0, 3, 0], [1, 0, 3], [1, 1, 0]], float)


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
