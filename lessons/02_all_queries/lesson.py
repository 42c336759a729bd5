"""Lesson 2: all queries at once, in NumPy: the lines of its page in their order, and the numbers that they start from.

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
keep('query_weights', np.array([[1, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 1]], float), given)
keep('key_weights', np.array([[0, 0, 1], [1, 1, 0], [0, 1, 0], [1, 1, 0]], float), given)
keep('value_weights', np.array([[0, 2, 0], [0, 3, 0], [1, 0, 3], [1, 1, 0]], float), given)
keep('other.queries', np.array([[1, 0], [0, 2], [1, 1]], float), given)
keep('other.keys', np.array([[2, 0], [1, 1], [0, 1]], float), given)
keep('other.values', np.array([[1, 0], [0, 1], [2, 2]], float), given)
keep('rounded.weights', np.array([[0, 0.5, 0.5], [0, 1, 0], [0, 0.9, 0.1]], float), given)

# ---- Queries, keys and values

queries = inputs @ query_weights
keys = inputs @ key_weights
values = inputs @ value_weights

show('queries', queries, [[1, 0, 2], [2, 2, 2], [2, 1, 3]])
show('keys', keys, [[0, 1, 1], [4, 4, 0], [2, 3, 1]])
show('values', values, [[1, 2, 3], [2, 8, 0], [2, 6, 3]])

# ---- Scores

scores = queries @ keys.T

show('scores', scores, [[2, 4, 4], [4, 16, 12], [4, 12, 10]])

# ---- Why two matrices, and not one?

merged = query_weights @ key_weights.T
merged_scores = inputs @ merged @ inputs.T

show('merged', merged, [[1, 1, 0, 1], [0, 1, 0, 1], [1, 0, 0, 0], [1, 1, 1, 1]])
show('merged_scores', merged_scores, [[2, 4, 4], [4, 16, 12], [4, 12, 10]])

# ---- Weights

def softmax(scores, axis=-1):
    exponentials = np.exp(scores)
    return exponentials / exponentials.sum(axis=axis, keepdims=True)

weights = softmax(scores)

show('weights', weights, [[0.0634, 0.4683, 0.4683], [0.0000, 0.9820, 0.0180], [0.0003, 0.8805, 0.1192]])

# ---- Outputs

output = weights @ values

show('output', output, [[1.9366, 6.6831, 1.5951], [2.0000, 7.9640, 0.0540], [1.9997, 7.7599, 0.3584]])

# ---- Each output alone

def alone(i):
    query = inputs[i] @ query_weights
    weights_of_query = softmax(keys @ query)
    return query, weights_of_query, weights_of_query @ values

alone_2_query, alone_2_weights, alone_2_output = alone(2)
alone_1_query, alone_1_weights, alone_1_output = alone(1)
alone_0_query, alone_0_weights, alone_0_output = alone(0)

show('alone.2.output', alone_2_output, [1.9997, 7.7599, 0.3584])
show('alone.1.output', alone_1_output, [2.0000, 7.9640, 0.0540])
show('alone.0.output', alone_0_output, [1.9366, 6.6831, 1.5951])

# ---- What goes wrong without it: the wrong axis

other_scores = other_queries @ other_keys.T
other_weights = softmax(other_scores)
other_sums = other_weights.sum(axis=1)
other_output = other_weights @ other_values

show('other.weights', other_weights, [[0.6652, 0.2447, 0.0900], [0.0634, 0.4683, 0.4683], [0.4223, 0.4223, 0.1554]])
show('other.sums', other_sums, [1, 1, 1])
show('other.output', other_output, [[0.8453, 0.4248], [1.0000, 1.4049], [0.7330, 0.7330]])

# ---- What goes wrong without it: the wrong axis

wrong_weights = softmax(other_scores, axis=0)
wrong_sums = wrong_weights.sum(axis=1)
wrong_output = wrong_weights @ other_values

show('wrong.weights', wrong_weights, [[0.4683, 0.1554, 0.0900], [0.0634, 0.4223, 0.6652], [0.4683, 0.4223, 0.2447]])
show('wrong.sums', wrong_sums, [0.7137, 1.1509, 1.1354])
show('wrong.output', wrong_output, [[0.6484, 0.3354], [1.3939, 1.7528], [0.9578, 0.9118]])

# ---- Tokens as columns

columns_I = inputs.T
columns_W_q, columns_W_k, columns_W_v = query_weights.T, key_weights.T, value_weights.T
columns_Q = columns_W_q @ columns_I
columns_K = columns_W_k @ columns_I
columns_V = columns_W_v @ columns_I
columns_A = columns_K.T @ columns_Q
columns_A_normalized = softmax(columns_A, axis=0)
columns_O = columns_V @ columns_A_normalized

show('columns.A_normalized', columns_A_normalized, [[0.0634, 0.0000, 0.0003], [0.4683, 0.9820, 0.8805], [0.4683, 0.0180, 0.1192]])
show('columns.O', columns_O, [[1.9366, 2.0000, 1.9997], [6.6831, 7.9640, 7.7599], [1.5951, 0.0540, 0.3584]])

# ---- Tokens as columns

rounded_output = rounded_weights @ values
rounding = rounded_output - output

show('rounded.output', rounded_output, [[2.0000, 7.0000, 1.5000], [2.0000, 8.0000, 0.0000], [2.0000, 7.8000, 0.3000]])
show('rounding', rounding, [[0.0634, 0.3169, -0.0951], [0.0000, 0.0360, -0.0540], [0.0003, 0.0401, -0.0584]])

print("all as on the page")
