"""Lesson 22: low rank, and talking heads, in NumPy: the lines of its page in their order, and the numbers that they start from.

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

# ---- what is given

keep('inputs', np.array([[1, 0, 1, 0], [0, 2, 0, 2], [1, 1, 1, 1]], float), given)
keep('query_weights', np.array([[1, 0, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1], [0, 2, 1, 2]], float), given)
keep('key_weights', np.array([[0, 1, 1, 0], [1, 0, -1, 1], [0, 1, 2, 0], [1, 1, 0, -1]], float), given)
keep('value_weights', np.array([[0, 2, 1, 0], [0, 3, 0, 1], [1, 0, 3, 0], [1, 1, 0, 2]], float), given)
keep('output_weights', np.array([[1, 0, 0.5, 0], [0, 1, 0, -0.5], [0.5, 0, 1, 0], [0, -0.5, 0, 1]], float), given)
keep('talking_scores', np.array([[0.75, 0.5], [0.25, -0.5]], float), given)
keep('talking_weights', np.array([[1, 0.25], [-0.5, 0.75]], float), given)
keep('two.values', np.array([[0, 0], [1, 0], [0, 1]], float), given)
keep('two.scores', np.array([[0, 8, 0], [0, 0, 8]], float), given)
keep('cost.d_model', np.array(512), given)
keep('cost.h', np.array(8), given)

# ---- Step by step: a head is a form

def keep_all(scope, **steps):
    for name, value in steps.items():
        keep(f"{scope}.{name}", value)

forms = []
for head in range(2):
    part = slice(2 * head, 2 * head + 2)
    wq, wk = query_weights[:, part], key_weights[:, part]
    form = wq @ wk.T
    keep_all(f"head.{head}", query_weights=wq, key_weights=wk, form=form,
             scores=inputs @ form @ inputs.T)
    forms.append(form)

show('head.0.form', head_0_form, [[0, 1, 0, 1], [0, 1, 0, 1], [1, 0, 1, 1], [2, 0, 2, 2]])
show('head.0.scores', head_0_scores, [[2, 6, 5], [8, 16, 16], [6, 14, 13]])

# ---- Step by step: count the rank

def rank_of(scope, form):
    rest, pivots = form, [np.max(np.abs(form))]
    while pivots[-1] > 1e-9 * pivots[0] and len(pivots) <= len(form):
        row, column = np.argwhere(np.abs(rest) >= 0.99 * np.max(np.abs(rest)))[0]
        rest = rest - np.outer(rest[:, column], rest[row]) / rest[row, column]
        keep(f"{scope}.step.{len(pivots)}.rest", rest)
        pivots.append(np.max(np.abs(rest)))
    pivots = np.array(pivots)
    keep_all(scope, pivots=pivots, rank=np.sum(pivots > 1e-9 * pivots[0]))

for head in range(2):
    rank_of(f"head.{head}", forms[head])

show('head.0.step.1.rest', head_0_step_1_rest, [[0, 1, 0, 1], [0, 1, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0]])
show('head.0.pivots', head_0_pivots, [2, 1, 0])
show('head.0.rank', head_0_rank, 2)
show('head.1.rank', head_1_rank, 2)

# ---- Several heads, or one of full rank?

sum_form = forms[0] + forms[1]
rank_of("sum", sum_form)

show('sum.rank', sum_rank, 4)

# ---- Several heads, or one of full rank?

def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)

two_weights = softmax(two_scores)
two_apart = np.array([two_weights[0] @ two_values[:, 0],
                      two_weights[1] @ two_values[:, 1]])
two_sum = two_scores.sum(axis=0)
two_joint = softmax(two_sum)
two_together = two_joint @ two_values

show('two.apart', two_apart, [0.9993, 0.9993])
show('two.together', two_together, [0.4999, 0.4999])

# ---- Values have low rank too

output = 0
for head in range(2):
    part = slice(2 * head, 2 * head + 2)
    wv, wo = value_weights[:, part], output_weights[part]
    weights = softmax(inputs @ forms[head] @ inputs.T / np.sqrt(2))
    keep_all(f"head.{head}", value_weights=wv, map=wv @ wo, weights=weights,
             says=weights @ inputs @ wv @ wo)
    output = output + weights @ inputs @ wv @ wo

show('output', output, [
    [3.2953, 5.6362, 3.6476, -0.5681],
    [3.9983, 6.9076, 4.9991, -3.3282],
    [3.9963, 7.0319, 4.9961, -3.0731],
])
show('head.0.map', head_0_map, [
    [0.0000, 2.0000, 0.0000, -1.0000],
    [0.0000, 3.0000, 0.0000, -1.5000],
    [1.0000, 0.0000, 0.5000, 0.0000],
    [1.0000, 1.0000, 0.5000, -0.5000],
])

# ---- Values have low rank too

cost_d_k = cost_d_model // cost_h
cost_full = 2 * cost_h * cost_d_model**2                     # M and N in full, per head
# four narrow matrices per head
cost_narrow = 2 * cost_h * 2 * cost_d_model * cost_d_k
cost_talking = 2 * cost_h**2                                 # two mixing matrices

show('cost.full', cost_full, 4194304)
show('cost.narrow', cost_narrow, 1048576)
show('cost.talking', cost_talking, 128)

# ---- Talking heads

for j in range(2):
    form = forms[0] * talking_scores[0, j] + forms[1] * talking_scores[1, j]
    rank_of(f"mixed.{j}", form)
    scores = inputs @ form @ inputs.T
    keep_all(f"mixed.{j}", form=form, scores=scores, weights=softmax(scores / np.sqrt(2)))

show('mixed.0.rank', mixed_0_rank, 4)
show('mixed.1.rank', mixed_1_rank, 4)

# ---- Talking heads

talking_query = inputs @ query_weights
talking_key = inputs @ key_weights
talking_value = inputs @ value_weights
scaled, weights, contexts = [], [], []
for i in range(2):
    part = slice(2 * i, 2 * i + 2)
    queries, keys = talking_query[:, part], talking_key[:, part]
    scores = queries @ keys.T
    scaled.append(scores / np.sqrt(keys.shape[-1]))
    keep_all(f"talking.head.{i}", queries=queries, keys=keys,
             values=talking_value[:, part], scores=scores, scaled=scaled[i])
for j in range(2):
    mixed = scaled[0] * talking_scores[0, j] + scaled[1] * talking_scores[1, j]
    weights.append(softmax(mixed))
    keep_all(f"talking.head.{j}", mixed_scores=mixed, weights=weights[j])
for k in range(2):
    mixed = weights[0] * talking_weights[0, k] + weights[1] * talking_weights[1, k]
    contexts.append(mixed @ talking_value[:, 2 * k : 2 * k + 2])
    keep_all(f"talking.head.{k}", mixed_weights=mixed, context=contexts[k])
talking_merged = np.concatenate(contexts, axis=1)
talking_output = talking_merged @ output_weights

show('talking.head.0.mixed_weights', talking_head_0_mixed_weights, [[0.0077, 0.3284, 0.1640], [0.0268, -0.4439, 0.9172], [0.0232, -0.1939, 0.6707]])
show('talking.output', talking_output, [
    [1.9285, 1.4951, 2.3686, 2.4489],
    [1.4514, -0.6262, 1.4429, 4.2600],
    [1.3963, -0.1552, 1.3274, 4.0894],
])

print("all as on the page")
