"""Ways to write the exercises, right and wrong: for the pages (tests/docs/check_lab.py) and for Python (tests/exercises/notebooks.py).

WAYS has, by lesson and function, lines that are right, and wrong ones, each with a part of what is said of them: the mistake's name
where there is one. A pair is what the page and what Python says; None where the lines are not wrong there, or not the language.
"""

WRONG = "is wrong"
SYNTAX = ("character", "SyntaxError")

# One call of lesson 28, but for which keys a query sees.
CALL = "places = np.concatenate([past_positions, positions], axis=0)\nown = positions[:, None]\nscores = queries @ np.concatenate([past_keys, new_keys], axis=0).T / np.sqrt(queries.shape[1])\nsoftmax(np.where({seen}, scores, -np.inf)) @ np.concatenate([past_values, new_values], axis=0)"

# Lesson 30's words: how likely each is, and how likely those are together that come before it.
NUCLEUS = "chances = softmax(logits / temperature)\nplace = np.arange(chances.shape[1])\nis_before = (chances[:, None, :] > chances[:, :, None]) | ((chances[:, None, :] == chances[:, :, None]) & (place < place[:, None]))\nbefore = np.sum(np.where(is_before, chances[:, None, :], 0), axis=-1)\n"

WAYS = {
    "01_single_query": {
        "my_scores": ("np.array([key @ query for key in keys])", {
            "keys.T @ query": "has columns of keys where rows are wanted",
            "2 * keys @ query": WRONG,
            "keys @": SYNTAX,
            "keys * query": "the products are not added",
            "keys @ query / np.sqrt(len(query))": "Nothing is to be scaled",
            "scores = []\nfor key in keys: scores.append(key * query)\nnp.array(scores)": "the products are not added",
        }),
        "my_weights": ("e = np.exp(scores)\ne / np.sum(e)", {
            "softmax(scores)": ("softmax is what is to be written here", None),
            "np.exp(scores)": "softmax_unnormalized",
            "np.exp(scores) / np.max(np.exp(scores))": WRONG,
            "np.exp(scores) / len(scores)": WRONG,
            "scores / np.sum(scores)": "softmax_missing",
            "scores": "softmax_missing",
        }),
        "my_output": ("output = np.zeros(values.shape[1])\nfor i in range(len(values)):\n    output += weights[i] * values[i]\noutput", {
            "values @ weights": "has columns of values where rows are wanted",
            "np.sum(values, axis=0)": WRONG,
            "np.mean(values, axis=0)": WRONG,
            "weights[:, None] * values": "the products are not added",
            "values[1]": WRONG,
        }),
    },
    "02_all_queries": {
        "my_attention": ("np.array([softmax(keys @ query) @ values for query in queries])", {
            "softmax(queries @ keys.T, axis=0) @ values": "softmax_axis",
            "queries @ keys.T @ values": "softmax_missing",
            "softmax(queries @ keys) @ values": "keys_reshaped",
            "softmax(queries @ keys.T) @ keys": WRONG,
            "softmax(queries @ keys.T / np.sqrt(queries.shape[1])) @ values": "Nothing is to be scaled",
        }),
        "my_attention_in_columns": ("(softmax(Q.T @ K) @ V.T).T", {
            "softmax(Q.T @ K) @ V.T": WRONG,
            "(softmax(Q.T @ K, axis=0) @ V.T).T": WRONG,
            "(softmax(Q.T @ K / np.sqrt(Q.shape[0])) @ V.T).T": WRONG,
            "(softmax(Q @ K.T) @ V).T": ("don't fit", "ValueError"),
            "my_attention(Q, K, V)": ("don't fit", "ValueError"),
        }),
    },
    "03_scale_and_softmax": {
        "my_softmax": ("top = np.max(scores)\ne = np.exp(scores - np.where(top == -np.inf, 0, top))\ntotal = np.sum(e)\ne / np.where(total == 0, 1, total)", {
            "softmax(scores)": ("softmax is what is to be written here", None),
            "np.exp(scores) / np.sum(np.exp(scores))": "softmax_overflow",
            "np.exp(scores - np.max(scores))": "softmax_unnormalized",
            "(scores - np.min(scores)) / np.sum(scores - np.min(scores))": WRONG,
            "np.exp(scores - np.max(scores)) / len(scores)": WRONG,
            "scores / np.sum(scores)": "softmax_missing",
        }),
        "my_divisor": ("np.sqrt(d_k) * variance", {"np.sqrt(d_k)": WRONG, "d_k": WRONG, "np.sqrt(d_k * variance)": WRONG, "np.sqrt(d_k) / variance": WRONG, "np.sqrt(d_k) + variance": WRONG}),
    },
    "04_scoring": {
        "my_additive_score": ("np.tanh(query @ query_weights + key @ key_weights) @ score_weights", {
            "(query @ query_weights + key @ key_weights) @ score_weights": WRONG,
            "np.tanh(query @ query_weights) @ score_weights": WRONG,
            "np.tanh(query @ query_weights + key @ key_weights)": WRONG,
            "(np.tanh(query @ query_weights) + np.tanh(key @ key_weights)) @ score_weights": WRONG,
            "np.sum(np.tanh(query @ query_weights + key @ key_weights))": WRONG,
        }),
        "my_bilinear_score": ("total = 0\nfor i in range(len(query)):\n    for j in range(len(key)):\n        total += query[i] * bilinear[i, j] * key[j]\ntotal", {
            "key @ bilinear @ query": ("character 1", "ValueError"),
            "query @ bilinear": WRONG,
            "np.sum(bilinear @ key)": WRONG,
            "query @ bilinear @ key / np.sqrt(len(query))": WRONG,
            "np.sum(query) * np.sum(key)": WRONG,
        }),
    },
    "05_masking": {
        "my_masked_weights": ("i = np.arange(scores.shape[0])[:, None]\nj = np.arange(scores.shape[1])\nsoftmax(np.where((j <= i) & (j < length), scores, -np.inf))", {
            "j = np.arange(scores.shape[1])\nsoftmax(np.where(j < length, scores, -np.inf))": "mask_one_dropped",
            "i = np.arange(scores.shape[0])[:, None]\nj = np.arange(scores.shape[1])\nnp.where((j <= i) & (j < length), softmax(scores), 0)": "mask_after_softmax",
            "i = np.arange(scores.shape[0])[:, None]\nj = np.arange(scores.shape[1])\nsoftmax(np.where((j >= i) & (j < length), scores, -np.inf))": "mask_transposed",
            "i = np.arange(scores.shape[0])[:, None]\nj = np.arange(scores.shape[1])\nsoftmax(np.where((j <= i) & (j < length), scores, 0))": "mask_zero",
            "softmax(scores)": "mask_one_dropped",
            "i = np.arange(scores.shape[0])[:, None]\nj = np.arange(scores.shape[1])\nsoftmax(np.where((j < i) & (j < length), scores, -np.inf))": "causal_strict",
            "weights = np.zeros(scores.shape)\nfor i in range(len(scores)):\n    for j in range(i):\n        weights[i, j] = scores[i, j]\nsoftmax(weights)": WRONG,
        }),
    },
    "06_multi_head": {
        "my_merged_heads": ("np.concatenate([context for context in contexts], axis=1)", {
            "contexts.reshape(contexts.shape[1], contexts.shape[0] * contexts.shape[2])": "heads_unpermuted_merge",
            "np.sum(contexts, axis=0)": WRONG,
            "contexts": WRONG,
            "np.concatenate([contexts[0], contexts[1]], axis=0)": WRONG,
            "np.transpose(contexts, (1, 2, 0)).reshape(contexts.shape[1], contexts.shape[0] * contexts.shape[2])": WRONG,
        }),
    },
    "07_self_and_cross": {
        "my_aligned_question": ("softmax(passage @ question.T / np.sqrt(question.shape[1])) @ question", {
            "softmax(question @ passage.T / np.sqrt(3)) @ passage": WRONG,
            "softmax(passage @ question.T / np.sqrt(3), axis=0) @ question": "softmax_axis",
            "softmax(passage @ question.T) @ question": "no_scale",
            "softmax(passage @ question.T / question.shape[1]) @ question": "scale_d_k",
            "passage @ question.T / np.sqrt(question.shape[1]) @ question": "softmax_missing",
        }),
    },
    "08_positions": {
        "my_sinusoid": ("angle = position / 10000 ** (2 * (feature // 2) / d)\nnp.where(feature % 2 == 0, np.sin(angle), np.cos(angle))", {
            "angle = position / 10000 ** (2 * (feature // 2) / d)\nnp.where(feature % 2 == 1, np.sin(angle), np.cos(angle))": "positions_cos_first",
            "angle = position / 10000 ** (feature / d)\nnp.where(feature % 2 == 0, np.sin(angle), np.cos(angle))": WRONG,
            "np.sin(position / 10000 ** (2 * (feature // 2) / d))": WRONG,
            "angle = (position + 1) / 10000 ** (2 * (feature // 2) / d)\nnp.where(feature % 2 == 0, np.sin(angle), np.cos(angle))": "positions_from_one",
            "angle = position / 10000 ** (2 * (feature // 2) / d)\nnp.where(feature < d // 2, np.sin(angle), np.cos(angle))": WRONG,
        }),
    },
    "09_feed_forward_and_norm": {
        "my_normalized": ("rows = []\nfor row in x:\n    rows.append((row - row.mean()) / np.sqrt(np.mean((row - row.mean()) ** 2) + epsilon))\nnp.array(rows)", {
            "centred = x - np.mean(x, axis=0, keepdims=True)\ncentred / np.sqrt(np.mean(centred ** 2, axis=0, keepdims=True) + epsilon)": WRONG,
            "centred = x - np.mean(x, axis=1, keepdims=True)\ncentred / (np.sqrt(np.mean(centred ** 2, axis=1, keepdims=True)) + epsilon)": "norm_epsilon_outside",
            "x / np.sqrt(np.mean(x ** 2, axis=1, keepdims=True) + epsilon)": "rms_mean_subtracted",
            "centred = x - np.mean(x, axis=1, keepdims=True)\ncentred / np.sqrt(np.sum(centred ** 2, axis=1, keepdims=True) / (x.shape[1] - 1) + epsilon)": "norm_bessel",
            "x - np.mean(x, axis=1, keepdims=True)": WRONG,
            "centred = x - np.mean(x)\ncentred / np.sqrt(np.mean(centred ** 2) + epsilon)": "norm_all_tokens",
        }),
    },
    "10_encoder_layer": {
        "my_pre_norm_layer": ('y = x + multi_head_attention(layer_norm(x, weights, "norm1"), layer_norm(x, weights, "norm1"), weights, "self_attn", heads)\ny + feed_forward(layer_norm(y, weights, "norm2"), weights)', {
            'y = layer_norm(x + multi_head_attention(x, x, weights, "self_attn", heads), weights, "norm1")\nlayer_norm(y + feed_forward(y, weights), weights, "norm2")': "norm_placement",
            'y = x + multi_head_attention(layer_norm(x, weights, "norm1"), layer_norm(x, weights, "norm1"), weights, "self_attn", heads)\nfeed_forward(layer_norm(y, weights, "norm2"), weights)': ("Right so far: y (residual1)", WRONG),
            'n = layer_norm(x, weights, "norm1")\ny = x + multi_head_attention(n, n, weights, "self_attn", 1)\ny + feed_forward(layer_norm(y, weights, "norm2"), weights)': ("Right so far: n (norm1.output)", WRONG),
            'layer_norm(x, weights, "norm3")': ("weights.norm3", "KeyError"),
            'n = layer_norm(x, weights, "norm1")\ny = x + multi_head_attention(n, n, weights, "self_attn", heads)\ny + feed_forward(y, weights)': "norm_skipped",
            'n = layer_norm(x, weights, "norm1")\ny = x + multi_head_attention(n, n, weights, "self_attn", heads)\ny + feed_forward(layer_norm(y, weights, "norm1"), weights)': WRONG,
        }),
    },
    "11_encoder_stack": {
        "my_parameter_count": ("total = 0\nfor layer in range(layers):\n    total += 4 * d_model * (d_model + 1) + 2 * d_model * d_ff + d_ff + 5 * d_model\ntotal", {
            "layers * (4 * d_model ** 2 + 2 * d_model * d_ff)": WRONG,
            "layers * d_model": WRONG,
            "4 * (d_model * d_model + d_model)": WRONG,
            "layers * (4 * d_model * (d_model + 1) + 2 * d_model * d_ff + d_ff + d_model)": WRONG,
            "layers * (3 * d_model * (d_model + 1) + 2 * d_model * d_ff + d_ff + 5 * d_model)": WRONG,
        }),
    },
    "12_decoder": {
        "my_decoder_layer": ('y = layer_norm(x + multi_head_attention(x, x, weights, "self_attn", heads, causal=True), weights, "norm1")\nz = layer_norm(y + multi_head_attention(y, memory, weights, "multihead_attn", heads), weights, "norm2")\nreturn layer_norm(z + feed_forward(z, weights), weights, "norm3")', {
            'y = layer_norm(x + multi_head_attention(x, x, weights, "self_attn", heads), weights, "norm1")\nz = layer_norm(y + multi_head_attention(y, memory, weights, "multihead_attn", heads), weights, "norm2")\nlayer_norm(z + feed_forward(z, weights), weights, "norm3")': "mask_missing",
            'y = layer_norm(x + multi_head_attention(x, x, weights, "self_attn", heads, causal=True), weights, "norm1")\nz = layer_norm(y + multi_head_attention(y, y, weights, "multihead_attn", heads), weights, "norm2")\nlayer_norm(z + feed_forward(z, weights), weights, "norm3")': "cross_keys_from_decoder",
            'y = layer_norm(x + multi_head_attention(x, x, weights, "self_attn", heads, causal=True), weights, "norm1")\nz = layer_norm(y + multi_head_attention(y, memory, weights, "multihead_attn", heads), weights, "norm2")\nlayer_norm(z + feed_forward(z, weights), weights, "norm2")': WRONG,
            'y = layer_norm(x + multi_head_attention(x, x, weights, "self_attn", heads, causal=True), weights, "norm1")\nlayer_norm(y + feed_forward(y, weights), weights, "norm3")': ("Right so far: y", WRONG),
            'y = layer_norm(x + multi_head_attention(x, x, weights, "self_attn", heads, causal=True), weights, "norm1")\nz = layer_norm(y + multi_head_attention(y, memory, weights, "self_attn", heads), weights, "norm2")\nlayer_norm(z + feed_forward(z, weights), weights, "norm3")': WRONG,
        }),
    },
    "13_transformer": {
        "my_translation": ("ids = [start]\nfor step in range(max_tokens):\n    logits = predict_next(source, ids, weights, heads)\n    ids.append(int(np.argmax(logits[-1])))\n    if ids[-1] == end:\n        break\nnp.array(ids[1:])", {
            "ids = [start]\nwhile len(ids) <= max_tokens and (len(ids) == 1 or ids[-1] != end):\n    ids.append(int(np.argmax(predict_next(source, ids, weights, heads)[0])))\nnp.array(ids[1:])": WRONG,
            "ids = [start]\nwhile len(ids) <= max_tokens and (len(ids) == 1 or ids[-1] != end):\n    ids.append(int(np.argmax(predict_next(source, ids, weights, heads)[-1])))\nnp.array(ids)": WRONG,
            "ids = [start]\nwhile len(ids) <= max_tokens:\n    ids.append(int(np.argmax(predict_next(source, ids, weights, heads)[-1])))\nnp.array(ids[1:])": WRONG,
            "ids = [start]\nwhile len(ids) == 1 or ids[-1] != end:\n    ids.append(int(np.argmax(predict_next(source, ids, weights, heads)[-1])))\n    if len(ids) == 9: break\nnp.array(ids[1:])": WRONG,
            "np.argmax(predict_next(source, np.array([start]), weights, heads), axis=1)": WRONG,
            "ids = [start]\nwhile True:\n    logits = predict_next(source, ids, weights, heads)\nids": ("does each loop end?", None),
        }),
    },
    "14_gradients": {
        "my_score_gradient": ("weights * (arriving - np.sum(weights * arriving, axis=1, keepdims=True))", {
            "weights * (1 - weights) * arriving": "grad_softmax_diagonal",
            "weights * arriving": WRONG,
            "arriving - np.sum(weights * arriving, axis=1, keepdims=True)": WRONG,
            "weights * (np.sum(weights * arriving, axis=1, keepdims=True) - arriving)": WRONG,
            "weights * (arriving - np.sum(arriving, axis=1, keepdims=True))": WRONG,
        }),
        "my_key_gradient": ("arriving.T @ queries / np.sqrt(queries.shape[1])", {
            "arriving.T @ queries": "grad_scale",
            "arriving.T @ queries * np.sqrt(queries.shape[1])": WRONG,
            "-arriving.T @ queries / np.sqrt(queries.shape[1])": WRONG,
            "arriving @ queries": ("character 1", "ValueError"),
            "arriving.T @ queries / queries.shape[1]": WRONG,
        }),
    },
    "15_training": {
        "my_loss_gradient": ("gradient = softmax(logits)\nfor i in range(len(targets)):\n    if targets[i] < 0:\n        gradient[i] = 0\n    else:\n        gradient[i, targets[i]] -= 1\ngradient / np.sum(targets >= 0)", {
            "softmax(logits) - (targets[:, None] == np.arange(logits.shape[1]))": WRONG,
            "softmax(logits)": WRONG,
            "-np.log(softmax(logits))": WRONG,
            "(softmax(logits) - (targets[:, None] == np.arange(logits.shape[1]))) * (targets >= 0)[:, None] / len(targets)": WRONG,
            "(softmax(logits) - (targets[:, None] == np.arange(logits.shape[1]))) / np.sum(targets >= 0)": WRONG,
        }),
    },
    "16_rotary_and_alibi": {
        "my_turned_pair": ("x = pair[:, 0]\ny = pair[:, 1]\nnp.stack([x * np.cos(angle) - y * np.sin(angle), x * np.sin(angle) + y * np.cos(angle)], axis=1)", {
            "pair * np.cos(angle)[:, None]": WRONG,
            "x = pair[:, 0]\ny = pair[:, 1]\nnp.stack([x * np.cos(angle) - y * np.sin(angle), x * np.sin(angle) - y * np.cos(angle)], axis=1)": WRONG,
            "x = pair[:, 0]\ny = pair[:, 1]\nnp.stack([y * np.cos(angle) - x * np.sin(angle), y * np.sin(angle) + x * np.cos(angle)], axis=1)": WRONG,
            "x = pair[:, 0]\ny = pair[:, 1]\nnp.stack([x * np.cos(angle) + y * np.sin(angle), y * np.cos(angle) - x * np.sin(angle)], axis=1)": "rotary_sign",
            "pair": WRONG,
        }),
        "my_alibi_bias": ("-slope * np.abs(query - key)", {"slope * (query - key)": WRONG, "-slope * np.abs(query - key) ** 2": WRONG, "-(query - key)": WRONG, "slope * np.abs(query - key)": WRONG, "-np.abs(query - key) / slope": WRONG}),
    },
    "17_story": {
        "my_cached_attention": ("keys = np.concatenate([past_keys, key], axis=0)\nvalues = np.concatenate([past_values, value], axis=0)\nreturn softmax(query @ keys.T / np.sqrt(key.shape[1])) @ values, keys, values", {
            "keys = np.concatenate([past_keys, key], axis=0)\nvalues = np.concatenate([past_values, value], axis=0)\nreturn softmax(query @ keys.T) @ values, keys, values": "no_scale",
            "softmax(query @ key.T) @ value, key, value": WRONG,
            "keys = np.concatenate([past_keys, key], axis=0)\nvalues = np.concatenate([past_values, value], axis=0)\nreturn softmax(query @ keys.T / np.sqrt(keys.shape[0])) @ values, keys, values": WRONG,
            "keys = np.concatenate([key, past_keys], axis=0)\nvalues = np.concatenate([value, past_values], axis=0)\nreturn softmax(query @ keys.T / np.sqrt(key.shape[1])) @ values, keys, values": WRONG,
            "value": "expected several results",
        }),
        "my_numbers_per_token": ("2 * layers * key_value_heads * d_k", {"layers * key_value_heads * d_k": WRONG, "2 * layers * d_k": WRONG, "layers": WRONG, "2 * layers * key_value_heads * d_k ** 2": WRONG, "2 * key_value_heads * d_k": WRONG}),
    },
    "18_flash_attention": {
        "my_merged_context": ("largest = np.maximum(first_largest, second_largest)\nshift = np.where(largest == -np.inf, 0, largest)\na = (first_sum * np.exp(first_largest - shift))[:, None]\nb = (second_sum * np.exp(second_largest - shift))[:, None]\n(a * first_context + b * second_context) / np.where(a + b == 0, 1, a + b)", {
            "(first_sum[:, None] * first_context + second_sum[:, None] * second_context) / (first_sum + second_sum)[:, None]": WRONG,
            "first_context + second_context": WRONG,
            "(first_context + second_context) / 2": WRONG,
            "a = (first_sum * np.exp(first_largest))[:, None]\nb = (second_sum * np.exp(second_largest))[:, None]\n(a * first_context + b * second_context) / np.where(a + b == 0, 1, a + b)": WRONG,
            "largest = np.maximum(first_largest, second_largest)\nshift = np.where(largest == -np.inf, 0, largest)\na = np.exp(first_largest - shift)[:, None]\nb = np.exp(second_largest - shift)[:, None]\n(a * first_context + b * second_context) / np.where(a + b == 0, 1, a + b)": WRONG,
        }),
    },
    "19_across_machines": {
        "my_scores": ("scores = np.zeros(ranks, int)\nfor query in range(len(rank_of)):\n    for key in range(query + 1):\n        if rank_of[key] == (rank_of[query] - hop) % ranks:\n            scores[rank_of[query]] += 1\nscores", {
            "scores = np.zeros(ranks, int)\nfor query in range(len(rank_of)):\n    for key in range(query + 1):\n        if rank_of[key] == (rank_of[query] + hop) % ranks:\n            scores[rank_of[query]] += 1\nscores": WRONG,
            "scores = np.zeros(ranks, int)\nfor query in range(len(rank_of)):\n    for key in range(query):\n        if rank_of[key] == (rank_of[query] - hop) % ranks:\n            scores[rank_of[query]] += 1\nscores": WRONG,
            "scores = np.zeros(ranks, int)\nfor query in range(len(rank_of)):\n    for key in range(len(rank_of)):\n        if rank_of[key] == (rank_of[query] - hop) % ranks:\n            scores[rank_of[query]] += 1\nscores": WRONG,
            "scores = np.zeros(ranks, int)\nfor query in range(len(rank_of)):\n    for key in range(query + 1):\n        if rank_of[key] == rank_of[query]:\n            scores[rank_of[query]] += 1\nscores": WRONG,
            "scores = np.zeros(ranks, int)\nfor query in range(len(rank_of)):\n    scores[rank_of[query]] += query + 1\nscores": WRONG,
        }),
    },
    "20_restricted": {
        "my_past_window": ("i = np.arange(len(x))[:, None]\nj = np.arange(len(x))\nsoftmax(np.where((j <= i) & (j >= i - radius), x @ x.T / np.sqrt(x.shape[1]), -np.inf)) @ x", {
            "rows = []\nfor i in range(len(x)):\n    window = x[max(0, i - radius) : i + 1]\n    rows.append(softmax(window @ x[i]) @ window)\nnp.array(rows)": "no_scale",
            "rows = []\nfor i in range(len(x)):\n    window = x[max(0, i - radius) : min(len(x), i + radius + 1)]\n    rows.append(softmax(window @ x[i] / np.sqrt(x.shape[1])) @ window)\nnp.array(rows)": WRONG,
            "rows = []\nfor i in range(len(x)):\n    window = x[max(0, i - radius + 1) : i + 1]\n    rows.append(softmax(window @ x[i] / np.sqrt(x.shape[1])) @ window if len(window) > 0 else 0 * x[i])\nnp.array(rows)": WRONG,
            "rows = []\nfor i in range(len(x)):\n    rows.append(softmax(x[: i + 1] @ x[i] / np.sqrt(x.shape[1])) @ x[: i + 1])\nnp.array(rows)": WRONG,
            "rows = []\nfor i in range(len(x)):\n    window = x[max(0, i - radius) : i + 1]\n    e = np.exp(window @ x[i] / np.sqrt(x.shape[1]))\n    rows.append(e @ window)\nnp.array(rows)": "softmax_unnormalized",
        }),
    },
    "21_recurrence": {
        "my_lstm_step": ("def gate(x): return 1 / (1 + np.exp(-x))\na = (x @ input_weights + input_bias + hidden @ recurrent_weights + recurrent_bias).reshape(4, -1)\nc = gate(a[1]) * cell + gate(a[0]) * np.tanh(a[2])\nreturn gate(a[3]) * np.tanh(c), c", {
            "a = (x @ input_weights + input_bias + hidden @ recurrent_weights + recurrent_bias).reshape(4, -1)\nc = sigmoid(a[0]) * cell + sigmoid(a[1]) * np.tanh(a[2])\nreturn sigmoid(a[3]) * np.tanh(c), c": WRONG,
            "return hidden, cell": WRONG,
            "a, b = x @ input_weights\nreturn a, b": ("names for", "ValueError"),
            "a = (x @ input_weights + input_bias + hidden @ recurrent_weights + recurrent_bias).reshape(4, -1)\nc = sigmoid(a[1]) * cell + sigmoid(a[0]) * a[2]\nreturn sigmoid(a[3]) * np.tanh(c), c": WRONG,
            "a = (x @ input_weights + input_bias + hidden @ recurrent_weights + recurrent_bias).reshape(4, -1)\nc = sigmoid(a[1]) * cell + sigmoid(a[0]) * np.tanh(a[2])\nreturn sigmoid(a[3]) * c, c": WRONG,
        }),
    },
    "22_low_rank_and_talking_heads": {
        "my_mixed_heads": ("mixed = np.zeros((mixture.shape[1], scores.shape[1], scores.shape[2]))\nfor j in range(mixture.shape[1]):\n    for head in range(len(scores)):\n        mixed[j] += mixture[head, j] * scores[head]\nmixed", {
            "np.transpose(scores, (1, 2, 0)) @ mixture": WRONG,
            "scores": WRONG,
            "np.transpose(np.transpose(scores, (1, 2, 0)) @ mixture.T, (2, 0, 1))": (WRONG, "ValueError"),
            "np.array([np.sum(scores, axis=0) for j in range(mixture.shape[1])])": WRONG,
            "np.array([mixture[j, j] * scores[j] for j in range(len(scores))])": WRONG,
        }),
    },
    "23_pitfalls": {
        "my_repaired_weights": ("weights / np.sum(weights, axis=1)[:, None]", {
            "weights / np.sum(weights, axis=0)": WRONG,
            "weights": WRONG,
            "weights / np.sum(weights)": WRONG,
            "softmax(weights)": WRONG,
            "np.tril(softmax(weights))": WRONG,
        }),
    },
    "24_smaller_caches": {
        "my_absorbed_score": ("score = key_weights @ query @ latent + rotary_query @ shared_key\nscore / np.sqrt(query.shape[0] + rotary_query.shape[0])", {
            "score = key_weights @ query @ latent + rotary_query @ shared_key\nscore / np.sqrt(latent.shape[0] + rotary_query.shape[0])": "scale_absorbed",
            "key_weights @ query @ latent + rotary_query @ shared_key": "no_scale",
            "score = key_weights @ query @ latent + rotary_query @ shared_key\nscore / (query.shape[0] + rotary_query.shape[0])": "scale_d_k",
            "score = key_weights @ query @ latent\nscore / np.sqrt(query.shape[0] + rotary_query.shape[0])": WRONG,
            "score = key_weights @ query @ latent + rotary_query @ shared_key\nscore / np.sqrt(query.shape[0])": WRONG,
        }),
    },
    "25_windows_and_sinks": {
        "my_window_mask": ("mask = np.zeros((n, m), bool)\nfor i in range(n):\n    own = m - n + i\n    for j in range(own + 1):\n        mask[i, j] = j > own - width or j < kept\nmask", {
            "own = np.arange(n)[:, None]\n(np.arange(m) <= own) & ((np.arange(m) > own - width) | (np.arange(m) < kept))": "window_top_left",
            "own = np.arange(n)[:, None] + (m - n)\n(np.arange(m) <= own) & ((np.arange(m) >= own - width) | (np.arange(m) < kept))": "window_off_by_one",
            "own = np.arange(n)[:, None] + (m - n)\n(np.arange(m) <= own) & (np.arange(m) > own - width)": "sink_tokens_missing",
            "own = np.arange(n)[:, None] + (m - n)\nnp.arange(m) <= own": "mask_one_dropped",
            "own = np.arange(n)[:, None] + (m - n)\n(np.arange(m) > own - width) | (np.arange(m) < kept)": WRONG,
        }),
    },
    "26_experts": {
        "my_mixture": ("scores = softmax(router_logits)\nchosen = np.where(top_k(scores, top), scores, 0)\nchosen / (np.sum(chosen) if is_normalized else 1) @ expert_outputs + shared_output", {
            "scores = softmax(router_logits)\nnp.where(top_k(scores, top), scores, 0) @ expert_outputs + shared_output": "experts_not_normalized",
            "softmax(np.where(top_k(router_logits, top), router_logits, -np.inf)) @ expert_outputs + shared_output": "experts_renormalized",
            "scores = softmax(router_logits)\nchosen = np.where(top_k(scores, top), scores, 0)\nchosen / (np.sum(chosen) if is_normalized else 1) @ expert_outputs": "experts_shared_missing",
            "softmax(router_logits) @ expert_outputs + shared_output": WRONG,
            "scores = softmax(router_logits)\nchosen = np.where(top_k(scores, 1), scores, 0)\nchosen / (np.sum(chosen) if is_normalized else 1) @ expert_outputs + shared_output": WRONG,
        }),
    },
    "27_state": {
        "my_delta_step": ("decayed = decay * previous_state\ndecayed + np.outer(key, beta * (value - key @ decayed))", {
            "decay * previous_state + np.outer(key, beta * (value - key @ previous_state))": "delta_error_before_decay",
            "decay * previous_state + np.outer(key, beta * value)": "delta_not_subtracted",
            "decayed = decay * previous_state\ndecayed + np.outer(key, value - key @ decayed)": "delta_beta_missing",
            "decay * (previous_state + np.outer(key, beta * (value - key @ previous_state)))": WRONG,
            "previous_state + np.outer(key, beta * (value - key @ previous_state))": WRONG,
        }),
    },
    "28_many_calls": {
        "my_call": (CALL.format(seen="(places <= own) & (places > own - width)"), {
            CALL.format(seen="(np.arange(places.shape[0]) <= np.arange(positions.shape[0])[:, None]) & (places > own - width)"): "causal_top_left",
            CALL.format(seen="places > own - width"): "mask_one_dropped",
            CALL.format(seen="places <= own"): "mask_one_dropped",
            CALL.format(seen="(places <= own) & (places >= own - width)"): "window_off_by_one",
            CALL.format(seen="(places <= own) & (places > own - width)").replace(" / np.sqrt(queries.shape[1])", ""): "no_scale",
            CALL.format(seen="(places <= own) & (np.arange(places.shape[0]) > np.arange(positions.shape[0])[:, None] + past_positions.shape[0] - width)"): WRONG,
        }),
    },
    "29_many_sequences": {
        "my_positions": ("i = np.arange(real.shape[1])\nnp.maximum(1 * real @ (1 * (i[:, None] <= i)) - 1, 0)", {
            "0 * real + np.arange(real.shape[1])": "padding_counted",
            "i = np.arange(real.shape[1])\n1 * real @ (1 * (i[:, None] < i))": WRONG,
            "np.sum(1 * real, axis=1, keepdims=True) - 1 + 0 * real": WRONG,
            "i = np.arange(real.shape[1])\n1 * real @ (1 * (i[:, None] <= i))": "positions_from_one",
            "i = np.arange(real.shape[1])\n1 * real @ (1 * (i[:, None] <= i)) - 1": WRONG,
        }),
        "my_paged_context": ("i = np.arange(tokens)\nslots = size * table[i // size] + i % size\nsoftmax(keys[slots] @ query / np.sqrt(query.shape[0])) @ values[slots]", {
            "i = np.arange(tokens)\nsoftmax(keys[i] @ query / np.sqrt(query.shape[0])) @ values[i]": "page_table_ignored",
            "i = np.arange(size * table.shape[0])\nslots = size * table[i // size] + i % size\nsoftmax(keys[slots] @ query / np.sqrt(query.shape[0])) @ values[slots]": "rest_of_page_read",
            "i = np.arange(tokens)\nslots = table[i // size] + i % size\nsoftmax(keys[slots] @ query / np.sqrt(query.shape[0])) @ values[slots]": "page_size_missing",
            "i = np.arange(tokens)\nslots = size * table[i // size] + i % size\nsoftmax(keys[slots] @ query) @ values[slots]": "no_scale",
            "i = np.arange(tokens)\nslots = size * table[i // size] + i % size\nsoftmax(keys[slots] @ query / np.sqrt(query.shape[0])) @ values[i]": ("Right so far", "page_table_ignored"),
        }),
    },
    "30_choosing": {
        "my_probabilities": (NUCLEUS + "kept = np.where(before < top_p, chances, 0)\nkept / np.sum(kept, axis=-1, keepdims=True)", {
            NUCLEUS + "kept = np.where(before + chances <= top_p, chances, 0)\nkept / np.sum(kept, axis=-1, keepdims=True)": "nucleus_without_crossing",
            NUCLEUS + "np.where(before < top_p, chances, 0)": "nucleus_not_normalized",
            "softmax(logits / temperature)": WRONG,
            "softmax(logits * temperature)": WRONG,
            NUCLEUS.replace("logits / temperature", "logits") + "kept = np.where(before < top_p, softmax(logits / temperature), 0)\nkept / np.sum(kept, axis=-1, keepdims=True)": "nucleus_before_temperature",
        }),
        "my_next": ("excess = np.maximum(target - draft, 0)\nexcess / np.sum(excess)", {
            "target": "speculation_from_target",
            "np.maximum(target - draft, 0)": WRONG,
            "softmax(target - draft)": WRONG,
            "excess = np.maximum(draft - target, 0)\nexcess / np.sum(excess)": "speculation_sides_swapped",
            "excess = np.abs(target - draft)\nexcess / np.sum(excess)": "speculation_excess_signed",
        }),
    },
    "31_fewer_bits": {
        "my_stored_keys": ("scale = np.max(np.abs(keys), axis=0, keepdims=True) / largest_code\nnp.round(keys / scale) * scale", {
            "scale = np.max(np.abs(keys), axis=1, keepdims=True) / largest_code\nnp.round(keys / scale) * scale": "scales_axis",
            "scale = np.max(np.abs(keys)) / largest_code\nnp.round(keys / scale) * scale": "scales_axis",
            "scale = np.max(keys, axis=0, keepdims=True) / largest_code\nnp.round(keys / scale) * scale": "scales_signed",
            "scale = np.max(np.abs(keys), axis=0, keepdims=True) / largest_code\nnp.floor(keys / scale) * scale": "codes_truncated",
            "scale = np.max(np.abs(keys), axis=0, keepdims=True) / largest_code\nnp.round(keys / scale)": "scales_dropped",
        }),
    },
}  # fmt: skip
