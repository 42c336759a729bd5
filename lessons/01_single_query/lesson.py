"""Lesson 1: one query and three keys, in NumPy: the lines of its page in their order, and the numbers that they start from.

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
keep('key_weights', np.array([[0, 0, 1], [1, 1, 0], [0, 1, 0], [1, 1, 0]], float), given)
keep('query_weights', np.array([[1, 0, 1], [1, 0, 0], [0, 0, 1], [0, 1, 1]], float), given)
keep('value_weights', np.array([[0, 2, 0], [0, 3, 0], [1, 0, 3], [1, 1, 0]], float), given)
keep('rounded.weights', np.array([0, 0.5, 0.5], float), given)

# ---- The query of the first token

first_input = inputs[0]
query = first_input @ query_weights

show('first_input', first_input, [1, 0, 1, 0])
show('query', query, [1, 0, 2])

# ---- A key and a value per token

keys = inputs @ key_weights
values = inputs @ value_weights

show('keys', keys, [[0, 1, 1], [4, 4, 0], [2, 3, 1]])
show('values', values, [[1, 2, 3], [2, 8, 0], [2, 6, 3]])

# ---- Scores

scores = keys @ query

show('scores', scores, [2, 4, 4])

# ---- Weights

exponentials = np.exp(scores)
weights = exponentials / exponentials.sum()

show('weights', weights, [0.0634, 0.4683, 0.4683])

# ---- The output

weighted_values = weights[:, None] * values
output = weighted_values.sum(axis=0)

show('weighted_values', weighted_values, [[0.0634, 0.1268, 0.1901], [0.9366, 3.7465, 0.0000], [0.9366, 2.8099, 1.4049]])
show('output', output, [1.9366, 6.6831, 1.5951])

# ---- Why softmax, and not a division by the sum?

divided_scores = scores - 3
divided_weights = divided_scores / divided_scores.sum()
divided_output = divided_weights @ values

show('divided.scores', divided_scores, [-1, 1, 1])
show('divided.weights', divided_weights, [-1, 1, 1])
show('divided.output', divided_output, [3, 12, 0])

# ---- Why softmax, and not a division by the sum?

rounded_output = rounded_weights @ values
rounding = rounded_output - output

show('rounded.output', rounded_output, [2.0000, 7.0000, 1.5000])
show('rounding', rounding, [0.0634, 0.3169, -0.0951])

print("all as on the page")
