"""Lesson 4: other scoring functions, in NumPy: the lines of its page in their order, and the numbers that they start from.

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

keep('queries', np.array([[1, 0, 2], [2, 2, 2], [2, 1, 3]], float), given)
keep('keys', np.array([[0, 1, 1], [4, 4, 0], [2, 3, 1]], float), given)
keep('values', np.array([[1, 2, 3], [2, 8, 0], [2, 6, 3]], float), given)
keep('query_weights', np.array([[0.5, -0.25, 0, 0.25], [0, 0.5, -0.5, 0.25], [-0.25, 0, 0.5, 0.25]], float), given)
keep('key_weights', np.array([[0.25, 0, -0.25, 0.5], [0.25, -0.5, 0, 0], [0, 0.5, 0.25, -0.5]], float), given)
keep('score_weights', np.array([1, -1, 2, 0.5], float), given)
keep('short_queries', np.array([[1, 2], [2, 2], [0, 1]], float), given)
keep('bilinear_weights', np.array([[0.5, 0, -0.5], [0, 0.25, 0.5]], float), given)
keep('short_query_weights', np.array([[0.5, 0, -0.5, 0.25], [-0.25, 0.5, 0.25, 0]], float), given)
keep('cost.n', np.array(128), given)
keep('cost.m', np.array(128), given)
keep('cost.d', np.array(64), given)
keep('cost.d_hidden', np.array(64), given)

# ---- Dot product and scaled dot product

def softmax(scores):
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)

dot_scores = queries @ keys.T
dot_weights = softmax(dot_scores)
dot_context = dot_weights @ values

scaled_dot_scores = queries @ keys.T
scaled_dot_scaled = scaled_dot_scores / np.sqrt(keys.shape[-1])
scaled_dot_weights = softmax(scaled_dot_scaled)
scaled_dot_context = scaled_dot_weights @ values

show('dot.scores', dot_scores, [[2, 4, 4], [4, 16, 12], [4, 12, 10]])
show('dot.weights', dot_weights, [[0.0634, 0.4683, 0.4683], [0.0000, 0.9820, 0.0180], [0.0003, 0.8805, 0.1192]])
show('dot.context', dot_context, [[1.9366, 6.6831, 1.5951], [2.0000, 7.9640, 0.0540], [1.9997, 7.7599, 0.3584]])
show('scaled_dot.scaled', scaled_dot_scaled, [[1.1547, 2.3094, 2.3094], [2.3094, 9.2376, 6.9282], [2.3094, 6.9282, 5.7735]])
show('scaled_dot.weights', scaled_dot_weights, [[0.1361, 0.4319, 0.4319], [0.0009, 0.9088, 0.0903], [0.0074, 0.7547, 0.2378]])

# ---- The additive score of one pair

pair_query, pair_key = queries[0], keys[0]
pair_query_part = pair_query @ query_weights
pair_key_part = pair_key @ key_weights
pair_hidden = np.tanh(pair_query_part + pair_key_part)
pair_score = pair_hidden @ score_weights

show('pair.query_part', pair_query_part, [0.0000, -0.2500, 1.0000, 0.7500])
show('pair.key_part', pair_key_part, [0.2500, 0.0000, 0.2500, -0.5000])
show('pair.hidden', pair_hidden, [0.2449, -0.2449, 0.8483, 0.2449])
show('pair.score', pair_score, 2.3089)

# ---- The additive score of one pair

pair_both = np.concatenate([pair_query, pair_key])
pair_both_hidden = np.tanh(pair_both @ np.concatenate([query_weights, key_weights]))

show('pair.both_hidden', pair_both_hidden, [0.2449, -0.2449, 0.8483, 0.2449])

# ---- The additive score of all pairs

def additive_attention(queries, keys, values,
                       query_weights, key_weights, score_weights):
    query_part = queries @ query_weights                   # (n, d_hidden)
    key_part = keys @ key_weights                          # (m, d_hidden)
    hidden = np.tanh(query_part[:, None, :] + key_part)    # (n, m, d_hidden)
    scores = hidden @ score_weights                        # (n, m)
    weights = softmax(scores)
    return query_part, key_part, hidden, scores, weights, weights @ values

(additive_query_part, additive_key_part, additive_hidden, additive_scores,
 additive_weights, additive_context) = additive_attention(
    queries, keys, values, query_weights, key_weights, score_weights)

show('additive.scores', additive_scores, [[2.3089, 2.4380, 3.3910], [1.0437, 0.8677, 1.3957], [2.5395, 2.4411, 3.4191]])
show('additive.weights', additive_weights, [[0.1965, 0.2236, 0.5799], [0.3067, 0.2572, 0.4361], [0.2317, 0.2100, 0.5583]])

# ---- The additive score of all pairs

n, m = len(queries), len(keys)
concatenated_hidden_weights = np.concatenate([query_weights, key_weights])
queries_of_pairs = np.repeat(queries[:, None, :], m, axis=1)
keys_of_pairs = np.repeat(keys[None, :, :], n, axis=0)
concatenated_pairs = np.concatenate([queries_of_pairs, keys_of_pairs], axis=2)
concatenated_hidden = np.tanh(concatenated_pairs @ concatenated_hidden_weights)
concatenated_scores = concatenated_hidden @ score_weights
concatenated_weights = softmax(concatenated_scores)
concatenated_context = concatenated_weights @ values

show('concatenated.context', concatenated_context, [[1.8035, 5.6612, 2.3292], [1.6933, 5.2876, 2.2284], [1.7683, 5.4932, 2.3700]])

# ---- Queries of another size

bilinear_projected = short_queries @ bilinear_weights
bilinear_scores = bilinear_projected @ keys.T
bilinear_weights_of_keys = softmax(bilinear_scores)
bilinear_context = bilinear_weights_of_keys @ values

show('bilinear.scores', bilinear_scores, [[1.0000, 4.0000, 3.0000], [0.5000, 6.0000, 3.5000], [0.7500, 1.0000, 1.2500]])

# ---- Queries of another size

(short_additive_query_part, short_additive_key_part, short_additive_hidden,
 short_additive_scores, short_additive_weights,
 short_additive_context) = additive_attention(
    short_queries, keys, values, short_query_weights, key_weights, score_weights)

show('short_additive.context', short_additive_context, [[1.8215, 6.1136, 1.7583], [1.8276, 6.2932, 1.5259], [1.8504, 6.0858, 1.9740]])

# ---- Without softmax

unnormalized_scores = queries @ keys.T
unnormalized_context = unnormalized_scores @ values

show('unnormalized.scores', unnormalized_scores, [[2, 4, 4], [4, 16, 12], [4, 12, 10]])
show('unnormalized.context', unnormalized_context, [[18, 60, 18], [60, 208, 48], [48, 164, 42]])

# ---- Without softmax

unnormalized_keys_with_values = keys.T @ values
unnormalized_regrouped = queries @ unnormalized_keys_with_values

show('unnormalized.regrouped', unnormalized_regrouped, [[18, 60, 18], [60, 208, 48], [48, 164, 42]])

# ---- What each score costs

n, m, d, h = int(cost_n), int(cost_m), int(cost_d), int(cost_d_hidden)
cost_dot = n * m * d
cost_scaled = n * m * d + n * m
cost_bilinear = n * d * d + n * m * d
cost_additive = (n + m) * d * h + n * m * h
cost_additive_tanhs = n * m * h
cost_concatenated = n * m * (d + d) * h + n * m * h
cost_ratio = cost_additive / cost_dot

show('cost.dot', cost_dot, 1048576)
show('cost.scaled', cost_scaled, 1064960)
show('cost.bilinear', cost_bilinear, 1572864)
show('cost.additive', cost_additive, 2097152)
show('cost.additive_tanhs', cost_additive_tanhs, 1048576)
show('cost.concatenated', cost_concatenated, 135266304)
show('cost.ratio', cost_ratio, 2)

print("all as on the page")
