"""Lesson 27: a state instead of a cache, in NumPy: the lines of its page in their order, and the numbers that they start from.

It runs as it is, prints what the page shows, and stops where a number is another. Made of lesson.md by script/docs --pages.
"""

import numpy as np

given, mine = {}, {}   # steps by name: those given, and those computed here

def keep(path, array, among=mine):
    # norm1.output is also the variable norm1_output
    among[path] = globals()[path.replace(".", "_")] = array
    return array

def show(name, array, expected):
    """Prints a step, which has to be what the lesson's page shows."""
    array = np.asarray(array)
    print(f"{name}: {np.array2string(array, precision=4, suppress_small=True, separator=', ')}")
    assert array.shape == np.shape(expected), f"{name} has the shape {array.shape}, the page shows {np.shape(expected)}"
    assert np.allclose(array, expected, rtol=6e-4, atol=6e-5, equal_nan=True), f"{name} is not what the page shows: {expected}"

def drawn(seed, first, shape, scale):
    """Numbers of the sequence of that seed, from number `first` on: uniform between -scale and scale, by SplitMix64."""
    z = np.uint64(seed) + np.arange(first + 1, first + 1 + np.prod(shape), dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return scale * (((z ^ (z >> np.uint64(31))) >> np.uint64(40)) * 2.0**-23 - 1).reshape(shape)

# ---- what is given

keep('queries', np.array([[1, 0, 0], [0, 1, 0], [1, 1, 0], [1, 0, 0], [0, 0, 1]], float), given)
keep('keys', np.array([[1, 0, 0], [0, 1, 0], [0.6, 0.8, 0], [1, 0, 0], [0, 0, 1]], float), given)
keep('values', np.array([[1, 2], [3, 0], [-1, 1], [5, -2], [0, 4]], float), given)
keep('decay', np.array([0.5], float), given)
keep('beta', np.array([1], float), given)
keep('x', drawn(27, 0, (5, 4), 1.0), given)
keep('tokens.query_weights', drawn(27, 20, (4, 3), 1.0), given)
keep('tokens.key_weights', drawn(27, 32, (4, 3), 1.0), given)
keep('tokens.value_weights', drawn(27, 44, (4, 2), 1.0), given)
keep('tokens.kernel', drawn(27, 68, (8, 1, 2), 1.0), given)
keep('tokens.beta_logits_weights', drawn(27, 60, (4, 1), 1.0), given)
keep('tokens.decay_inputs_weights', drawn(27, 64, (4, 1), 1.0), given)
keep('tokens.dt_bias', np.array([0.31045448780059814], float), given)
keep('tokens.a_log', np.array([0.33194565773010254], float), given)
keep('pair_keys', drawn(72, 0, (12, 8), 1.0), given)
keep('pair_values', drawn(72, 96, (12, 8), 1.0), given)

# ---- 1. The other way round

plain_scores = queries @ keys.T
plain_output = plain_scores @ values
plain_state = keys.T @ values
plain_regrouped = queries @ plain_state

show('plain.state', plain_state, [[5.4000, 0.6000], [2.2000, 0.8000], [0.0000, 4.0000]])

# ---- 2. A running sum, and one that fades

def recur(scope, write):
    state, outputs = np.zeros((3, 2)), []
    for t, (query, key, value) in enumerate(zip(queries, keys, values)):
        state = keep(f"{scope}.token.{t}.state", write(state, key, value))
        outputs.append(query @ state)
    keep(f"{scope}.output", np.array(outputs))

recur("sum", lambda state, key, value: state + np.outer(key, value))
recur("faded", lambda state, key, value: decay * state + np.outer(key, value))

show('sum.token.3.state', sum_token_3_state, [[5.4000, 0.6000], [2.2000, 0.8000], [0.0000, 0.0000]])
show('sum.output', sum_output, [[1.0000, 2.0000], [3.0000, 0.0000], [2.6000, 3.4000], [5.4000, 0.6000], [0.0000, 4.0000]])
show('faded.token.3.state', faded_token_3_state, [[4.8250, -1.4500], [0.3500, 0.4000], [0.0000, 0.0000]])
show('faded.output', faded_output, [[1.0000, 2.0000], [3.0000, 0.0000], [0.3500, 1.9000], [4.8250, -1.4500], [0.0000, 4.0000]])

# ---- 2. A running sum, and one that fades

age = np.arange(5)[:, None] - np.arange(5)
masked_causal = np.where(age >= 0, plain_scores, 0)
masked_output = masked_causal @ values
masked_kept = np.where(age >= 0, decay ** np.maximum(age, 0), 0)
masked_fading = (plain_scores * masked_kept) @ values

show('masked.kept[0]', masked_kept[0], [1, 0, 0, 0, 0])

# ---- 3. The delta rule

def correct(state, key, value):
    return state + np.outer(key, beta * (value - key @ state))

recur("delta", correct)

show('delta.token.3.state', delta_token_3_state, [[5.0000, -2.0000], [-0.2000, -0.1600], [0.0000, 0.0000]])
show('delta.output', delta_output, [[1.0000, 2.0000], [3.0000, 0.0000], [-1.6000, 1.7200], [5.0000, -2.0000], [0.0000, 4.0000]])

# ---- 4. A gated DeltaNet, and chunks

def silu(a):
    return a / (1 + np.exp(-a))

def unit(rows):
    return rows / np.sqrt((rows ** 2).sum(axis=-1, keepdims=True) + 1e-6)

def weights(name):
    return given[f"tokens.{name}"]

mixed = np.hstack([x @ weights(f"{name}_weights") for name in ("query", "key", "value")])
padded = np.vstack([np.zeros((1, 8)), mixed])
kernel = weights("kernel")[:, 0]
activated = silu(padded[:-1] * kernel[:, 0] + padded[1:] * kernel[:, 1])
q, k = unit(activated[:, 0:3]) / np.sqrt(3), unit(activated[:, 3:6])
v, betas = activated[:, 6:8], 1 / (1 + np.exp(-x @ weights("beta_logits_weights")))
time_steps = np.log1p(np.exp(x @ weights("decay_inputs_weights") + weights("dt_bias")))
log_decays = -np.exp(weights("a_log")) * time_steps

def read_tokens():
    state, outputs = np.zeros((3, 2)), []
    for t in range(5):
        state = np.exp(log_decays[t]) * state
        state = state + np.outer(k[t], betas[t] * (v[t] - k[t] @ state))
        outputs.append(q[t] @ state)
    return np.array(outputs)

context = keep("tokens.head.0.context", read_tokens())

show('tokens.head.0.context', tokens_head_0_context, [[-0.0029, -0.0002], [-0.0282, 0.0211], [-0.0084, -0.0412], [-0.0209, 0.0265], [0.0023, 0.0291]])

# ---- 4. A gated DeltaNet, and chunks

def read_chunk(part, state):
    q_c, k_c, v_c, b = q[part], k[part], v[part], betas[part]
    sums = np.cumsum(log_decays[part], axis=0)
    decays = np.tril(np.exp(np.tril(sums - sums.T)))
    system = np.eye(len(b)) + np.tril(b * (k_c @ k_c.T) * decays, -1)
    deltas = np.linalg.solve(system, b * (v_c - np.exp(sums) * k_c @ state))
    output = np.exp(sums) * q_c @ state + ((q_c @ k_c.T) * decays) @ deltas
    return output, np.exp(sums[-1]) * state + (np.exp(sums[-1] - sums) * k_c).T @ deltas

def read_chunks(size=2):
    state, outputs = np.zeros((3, 2)), []
    for begin in range(0, 5, size):
        output, state = read_chunk(slice(begin, begin + size), state)
        outputs.append(output)
    return np.vstack(outputs)

keep("chunks.head.0.context", read_chunks())

show('chunks.head.0.context', chunks_head_0_context, [[-0.0029, -0.0002], [-0.0282, 0.0211], [-0.0084, -0.0412], [-0.0209, 0.0265], [0.0023, 0.0291]])

# ---- What is recalled

def unit_rows(rows):
    return rows / np.sqrt((rows ** 2).sum(axis=1, keepdims=True))

def softmax(a):
    e = np.exp(a - a.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)

recall_keys, recall_values = unit_rows(pair_keys), unit_rows(pair_values)

def judge(rule, recalled):
    keep(f"recall.{rule}.recalled", recalled)
    nearest = (recalled @ recall_values.T).argmax(axis=1)
    keep(f"recall.{rule}.right", np.mean(nearest == np.arange(len(nearest))))

ages = np.arange(len(recall_keys))[::-1, None]
judge("attention", softmax(16 * recall_keys @ recall_keys.T) @ recall_values)
judge("sum", recall_keys @ (recall_keys.T @ recall_values))
judge("faded", recall_keys @ ((decay ** ages * recall_keys).T @ recall_values))
corrected = np.zeros((8, 8))
for key, value in zip(recall_keys, recall_values):
    corrected = corrected + np.outer(key, value - key @ corrected)
judge("delta", recall_keys @ corrected)

show('recall.keys[0]', recall_keys[0], [0.0805, 0.4283, 0.4409, -0.5788, -0.3237, 0.3046, -0.1378, 0.2531])
show('recall.attention.right', recall_attention_right, 1)
show('recall.sum.right', recall_sum_right, 0.5833)
show('recall.faded.right', recall_faded_right, 0.2500)
show('recall.delta.right', recall_delta_right, 0.5000)

print("all as on the page")
