"""Lesson 21: recurrence, which attention replaced, in NumPy: the lines of its page in their order, and the numbers that they start from.

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

keep('x', np.array([[1, 0], [0, 1], [1, 1], [-1, 0.5]], float), given)
keep('initial', np.array([0.5, -0.5], float), given)
keep('reset_weights', np.array([[1, 0], [-1, 2], [2, 0], [0, -2]], float), given)
keep('update_weights', np.array([[0, 1], [1, 0], [0, -1], [1, 0]], float), given)
keep('candidate_weights', np.array([[1, -1], [0.5, 1], [1, 1], [-1, 1]], float), given)
keep('sentence.x', np.array([[1, 0, 0, 1], [0, 0, 0, 1], [0, 0, 0, 1], [0, 1, 0, 1], [0, 0, 0, 1], [0, 0, 1, 1], [0, 0, 0, 1]], float), given)
keep('sentence.initial', np.full((2,), 0, float), given)
keep('sentence.update_weights', np.array([[8, 0], [0, 8], [0, 8], [-4, -4], [0, 0], [0, 0]], float), given)
keep('sentence.candidate_weights', np.array([[3, 0], [0, 3], [0, 0], [0, 0], [1, 0], [0, 1]], float), given)
keep('lstm.initial_hidden', np.full((1, 2), 0, float), given)
keep('lstm.initial_cell', np.full((1, 2), 0, float), given)
keep('lstm.layers.0.forward.input_weights', drawn(16, 0, (2, 8), 1.0), given)
keep('lstm.layers.0.forward.recurrent_weights', drawn(16, 16, (2, 8), 1.0), given)
keep('recurrence.initial_hidden', np.full((1, 2, 2), 0, float), given)
keep('recurrence.layers.0.forward.input_weights', drawn(16, 32, (2, 6), 1.0), given)
keep('recurrence.layers.0.forward.recurrent_weights', drawn(16, 44, (2, 6), 1.0), given)
keep('convolution.layer.1.kernel', drawn(16, 56, (6, 2), 1.0), given)
keep('convolution.layer.2.kernel', drawn(16, 68, (6, 2), 1.0), given)
keep('convolution.layer.3.kernel', drawn(16, 80, (6, 2), 1.0), given)
keep('attention.query_weights', drawn(16, 92, (2, 2), 1.0), given)
keep('attention.key_weights', drawn(16, 96, (2, 2), 1.0), given)
keep('attention.value_weights', drawn(16, 100, (2, 2), 1.0), given)
keep('waiting.n', np.array([4, 8, 16]), given)
keep('cost.d', np.array(64), given)
keep('cost.n', np.array([16, 64, 256, 1024]), given)
keep('translator.encoder.initial_hidden', np.full((2, 2), 0, float), given)
keep('translator.encoder.layers.0.forward.input_weights', drawn(16, 240, (2, 6), 1.0), given)
keep('translator.encoder.layers.0.forward.recurrent_weights', drawn(16, 252, (2, 6), 1.0), given)
keep('translator.encoder.layers.0.backward.input_weights', drawn(16, 264, (2, 6), 1.0), given)
keep('translator.encoder.layers.0.backward.recurrent_weights', drawn(16, 276, (2, 6), 1.0), given)
keep('translator.words', drawn(16, 357, (3, 2), 4.0), given)
keep('translator.start', np.array([-0.12465512752532959, 0.37910497188568115], float), given)
keep('translator.word.0.attention.query_weights', drawn(16, 336, (2, 3), 1.0), given)
keep('translator.word.0.attention.key_weights', drawn(16, 342, (4, 3), 1.0), given)
keep('translator.word.0.attention.score_weights', np.array([-2.8882503509521484, 6.0413618087768555, 3.790621757507324], float), given)
keep('translator.word.0.input_weights', drawn(16, 288, (6, 6), 1.0), given)
keep('translator.word.0.recurrent_weights', drawn(16, 324, (2, 6), 1.0), given)
keep('translator.word.1.attention.query_weights', given['translator.word.0.attention.query_weights'], given)
keep('translator.word.1.attention.key_weights', given['translator.word.0.attention.key_weights'], given)
keep('translator.word.1.attention.score_weights', given['translator.word.0.attention.score_weights'], given)
keep('translator.word.1.input_weights', given['translator.word.0.input_weights'], given)
keep('translator.word.1.recurrent_weights', given['translator.word.0.recurrent_weights'], given)
keep('translator.word.2.attention.query_weights', given['translator.word.0.attention.query_weights'], given)
keep('translator.word.2.attention.key_weights', given['translator.word.0.attention.key_weights'], given)
keep('translator.word.2.attention.score_weights', given['translator.word.0.attention.score_weights'], given)
keep('translator.word.2.input_weights', given['translator.word.0.input_weights'], given)
keep('translator.word.2.recurrent_weights', given['translator.word.0.recurrent_weights'], given)

# ---- Step by step: one token

def sigmoid(a):
    return 1 / (1 + np.exp(-a))

def gru_step(x, previous, reset_weights, update_weights, candidate_weights):
    joined = np.concatenate([x, previous])
    reset = sigmoid(joined @ reset_weights)
    update = sigmoid(joined @ update_weights)
    selected = reset * previous
    candidate = np.tanh(np.concatenate([x, selected]) @ candidate_weights)
    hidden = (1 - update) * previous + update * candidate
    return dict(x=x, joined=joined, reset=reset, update=update, selected=selected,
                candidate=candidate, hidden=hidden)

def keep_all(scope, steps):
    for name, value in steps.items():
        keep(f"{scope}.{name}", value)

# ---- Step by step: all tokens

def read(prefix, x, state, *weights):
    for i, token in enumerate(x):
        steps = gru_step(token, state, *weights)
        keep_all(f"{prefix}step.{i}", steps)
        state = steps["hidden"]

read("", x, initial, reset_weights, update_weights, candidate_weights)

show('step.0.reset', step_0_reset, [0.8808, 0.7311])
show('step.0.update', step_0_update, [0.3775, 0.6225])
show('step.0.candidate', step_0_candidate, [0.9474, -0.7283])
show('step.0.hidden', step_0_hidden, [0.6689, -0.6421])
show('step.1.reset', step_1_reset, [0.5837, 0.9639])
show('step.1.update', step_1_update, [0.5885, 0.3387])
show('step.1.candidate', step_1_candidate, [0.9068, 0.6478])
show('step.1.hidden', step_1_hidden, [0.8089, -0.2052])
show('step.2.reset', step_2_reset, [0.8345, 0.9176])
show('step.2.update', step_2_update, [0.6889, 0.5476])
show('step.2.candidate', step_2_candidate, [0.9824, 0.4517])
show('step.2.hidden', step_2_hidden, [0.9285, 0.1545])
show('step.3.reset', step_3_reset, [0.5883, 0.6662])
show('step.3.update', step_3_update, [0.6580, 0.1269])
show('step.3.candidate', step_3_candidate, [-0.2975, 0.9732])
show('step.3.hidden', step_3_hidden, [0.1218, 0.2584])

# ---- Step by step: all tokens

sentence_reset_weights = -sentence_update_weights
read("sentence.", sentence_x, sentence_initial, sentence_reset_weights,
     sentence_update_weights, sentence_candidate_weights)

show('sentence.step.0.update', sentence_step_0_update, [0.9820, 0.0180])
show('sentence.step.0.hidden', sentence_step_0_hidden, [0.9772, 0.0000])
show('sentence.step.1.update', sentence_step_1_update, [0.0180, 0.0180])
show('sentence.step.4.hidden', sentence_step_4_hidden, [0.9606, 0.9730])
show('sentence.step.5.reset', sentence_step_5_reset, [0.9820, 0.0180])
show('sentence.step.5.update', sentence_step_5_update, [0.0180, 0.9820])
show('sentence.step.5.hidden', sentence_step_5_hidden, [0.9566, 0.0347])
show('sentence.step.6.hidden', sentence_step_6_hidden, [0.9526, 0.0347])

# ---- Which GRU? Two conventions

packed = np.concatenate([reset_weights, -update_weights, candidate_weights], axis=1)
input_weights, recurrent_weights = packed[:2], packed[2:]

def gru_cell(x, previous, W, U, reset_after=True):
    d = previous.shape[-1]
    input_part = x @ W
    recurrent_part = previous @ (U if reset_after else U[:, : 2 * d])
    reset = sigmoid(input_part[..., :d] + recurrent_part[..., :d])
    update = sigmoid(input_part[..., d : 2 * d] + recurrent_part[..., d : 2 * d])
    steps = dict(x=x, previous_hidden=previous, input_part=input_part,
                 recurrent_part=recurrent_part, reset=reset, update=update)
    if reset_after:
        after = reset * recurrent_part[..., 2 * d :]
        candidate = np.tanh(input_part[..., 2 * d :] + after)
    else:
        steps |= dict(selected=reset * previous,
                      candidate_part=(reset * previous) @ U[:, 2 * d :])
        candidate = np.tanh(input_part[..., 2 * d :] + steps["candidate_part"])
    hidden = (1 - update) * candidate + update * previous
    return steps | dict(candidate=candidate, hidden=hidden)

def gru(scope, x, initial, W, U, reset_after=True, direction="forward"):
    hidden, outputs = initial, {}
    n = x.shape[-2]
    for i in range(n) if direction == "forward" else reversed(range(n)):
        steps = gru_cell(x[..., i, :], hidden, W, U, reset_after)
        keep_all(f"{scope}.layers.0.{direction}.step.{i}", steps)
        outputs[i] = hidden = steps["hidden"]
    output = np.stack([outputs[i] for i in range(n)], axis=-2)
    keep(f"{scope}.layers.0.{direction}.output", output)
    return output, hidden

for scope, reset_after in (("reset_before", False), ("reset_after", True)):
    output, last = gru(scope, x, initial, input_weights, recurrent_weights, reset_after)
    keep_all(scope, dict(initial_hidden=initial[None], output=output,
             final_hidden=last[None]))
reset_after_difference = np.max(np.abs(reset_after_output - reset_before_output))

show('reset_before.layers.0.forward.output', reset_before_layers_0_forward_output, [[0.6689, -0.6421], [0.8089, -0.2052], [0.9285, 0.1545], [0.1218, 0.2584]])
show('reset_after.layers.0.forward.output', reset_after_layers_0_forward_output, [[0.6716, -0.6628], [0.7796, -0.1800], [0.9186, 0.1967], [0.0936, 0.2966]])
show('reset_after.difference', reset_after_difference, 0.0422)

# ---- An LSTM

def lstm_cell(x, h, c, W, U):
    input_part, recurrent_part = x @ W, h @ U
    i, f, g, o = np.split(input_part + recurrent_part, 4, axis=-1)
    i, f, g, o = sigmoid(i), sigmoid(f), np.tanh(g), sigmoid(o)
    cell = f * c + i * g
    return dict(x=x, previous_hidden=h, previous_cell=c, input_part=input_part,
                recurrent_part=recurrent_part,
                input_gate=i, forget_gate=f, candidate=g, output_gate=o, cell=cell,
                hidden=o * np.tanh(cell))

h, c, outputs = lstm_initial_hidden[0], lstm_initial_cell[0], []
for i, token in enumerate(x):
    steps = lstm_cell(token, h, c, lstm_layers_0_forward_input_weights,
                      lstm_layers_0_forward_recurrent_weights)
    keep_all(f"lstm.layers.0.forward.step.{i}", steps)
    h, c = steps["hidden"], steps["cell"]
    outputs.append(h)
lstm_layers_0_forward_output = np.stack(outputs)
lstm_final_hidden, lstm_final_cell = h[None], c[None]

show('lstm.layers.0.forward.step.0.input_gate', lstm_layers_0_forward_step_0_input_gate, [0.4338, 0.3013])
show('lstm.layers.0.forward.step.0.forget_gate', lstm_layers_0_forward_step_0_forget_gate, [0.6675, 0.5453])
show('lstm.layers.0.forward.step.0.candidate', lstm_layers_0_forward_step_0_candidate, [0.2800, -0.4919])
show('lstm.layers.0.forward.step.0.output_gate', lstm_layers_0_forward_step_0_output_gate, [0.4372, 0.2690])
show('lstm.layers.0.forward.step.0.cell', lstm_layers_0_forward_step_0_cell, [0.1215, -0.1482])
show('lstm.layers.0.forward.step.0.hidden', lstm_layers_0_forward_step_0_hidden, [0.0528, -0.0396])
show('lstm.layers.0.forward.step.1.input_gate', lstm_layers_0_forward_step_1_input_gate, [0.5378, 0.6716])
show('lstm.layers.0.forward.step.1.forget_gate', lstm_layers_0_forward_step_1_forget_gate, [0.5994, 0.5647])
show('lstm.layers.0.forward.step.1.candidate', lstm_layers_0_forward_step_1_candidate, [-0.7577, 0.6065])
show('lstm.layers.0.forward.step.1.output_gate', lstm_layers_0_forward_step_1_output_gate, [0.3816, 0.5690])
show('lstm.layers.0.forward.step.1.cell', lstm_layers_0_forward_step_1_cell, [-0.3347, 0.3236])
show('lstm.layers.0.forward.step.1.hidden', lstm_layers_0_forward_step_1_hidden, [-0.1232, 0.1780])
show('lstm.layers.0.forward.step.2.input_gate', lstm_layers_0_forward_step_2_input_gate, [0.4258, 0.4980])
show('lstm.layers.0.forward.step.2.forget_gate', lstm_layers_0_forward_step_2_forget_gate, [0.7038, 0.6005])
show('lstm.layers.0.forward.step.2.candidate', lstm_layers_0_forward_step_2_candidate, [-0.4870, 0.0902])
show('lstm.layers.0.forward.step.2.output_gate', lstm_layers_0_forward_step_2_output_gate, [0.3038, 0.3225])
show('lstm.layers.0.forward.step.2.cell', lstm_layers_0_forward_step_2_cell, [-0.4429, 0.2392])
show('lstm.layers.0.forward.step.2.hidden', lstm_layers_0_forward_step_2_hidden, [-0.1264, 0.0757])
show('lstm.layers.0.forward.step.3.input_gate', lstm_layers_0_forward_step_3_input_gate, [0.5590, 0.7869])
show('lstm.layers.0.forward.step.3.forget_gate', lstm_layers_0_forward_step_3_forget_gate, [0.3460, 0.4998])
show('lstm.layers.0.forward.step.3.candidate', lstm_layers_0_forward_step_3_candidate, [-0.5681, 0.6835])
show('lstm.layers.0.forward.step.3.output_gate', lstm_layers_0_forward_step_3_output_gate, [0.4773, 0.7458])
show('lstm.layers.0.forward.step.3.cell', lstm_layers_0_forward_step_3_cell, [-0.4708, 0.6574])
show('lstm.layers.0.forward.step.3.hidden', lstm_layers_0_forward_step_3_hidden, [-0.2094, 0.4300])

# ---- How far does a change travel?

def moved(output):
    return np.max(np.abs(output[1] - output[0]), axis=1)

pair = np.stack([x, np.concatenate([x[:1] + 1, x[1:]])])
output, last = gru("recurrence", pair, recurrence_initial_hidden[0],
                   recurrence_layers_0_forward_input_weights,
                   recurrence_layers_0_forward_recurrent_weights)
keep_all("recurrence", dict(output=output, final_hidden=last[None],
         moved=moved(output)))

tokens, arrived = pair, []
kernels = (convolution_layer_1_kernel, convolution_layer_2_kernel,
           convolution_layer_3_kernel)
for layer, kernel in enumerate(kernels, 1):
    # a zero before the first and after the last token
    padded = np.pad(tokens, ((0, 0), (1, 1), (0, 0)))
    windows = np.concatenate([padded[:, :-2], padded[:, 1:-1], padded[:, 2:]], axis=-1)
    tokens = windows @ kernel
    keep_all(f"convolution.layer.{layer}",
             dict(padded=padded, windows=windows, output=tokens, moved=moved(tokens)))
    arrived.append(moved(tokens)[-1] > 0)

queries = pair @ attention_query_weights
keys = pair @ attention_key_weights
values = pair @ attention_value_weights
scores = queries @ keys.swapaxes(-1, -2)
scaled = scores / np.sqrt(keys.shape[-1])
weights = np.exp(scaled) / np.exp(scaled).sum(axis=-1, keepdims=True)
keep_all("attention", dict(query=queries, key=keys, value=values,
         merged=weights @ values, moved=moved(weights @ values)))
keep_all("attention.head.0",
         dict(queries=queries, keys=keys, values=values, scores=scores, scaled=scaled,
         weights=weights, context=weights @ values))

path_recurrence = np.sum(recurrence_moved > 0)
path_convolution = 1 + arrived.count(False)
path_attention = 1 + int(attention_moved[-1] == 0)

show('convolution.layer.1.moved', convolution_layer_1_moved, [0.5057, 0.8893, 0.0000, 0.0000])
show('path.recurrence', path_recurrence, 4)
show('path.convolution', path_convolution, 3)
show('path.attention', path_attention, 1)

# ---- Which products depend on each other?

waiting_gru = waiting_lstm = waiting_n          # one product per token
waiting_reset_before = 2 * waiting_n
waiting_convolution = 0 * waiting_n + 1
waiting_attention = 0 * waiting_n + 3           # projections, scores, context

show('waiting.gru', waiting_gru, [4, 8, 16])
show('waiting.lstm', waiting_lstm, [4, 8, 16])
show('waiting.reset_before', waiting_reset_before, [8, 16, 32])
show('waiting.convolution', waiting_convolution, [1, 1, 1])
show('waiting.attention', waiting_attention, [3, 3, 3])

# ---- What is multiplied?

n, d = cost_n, cost_d
cost_gru = n * (3 * (d + d) * d + 3 * d)
cost_lstm = n * (4 * (d + d) * d + 3 * d)
cost_convolution = n * 3 * d * d
cost_attention = n * 3 * d * d + 2 * n**2 * d + 2 * n**2

show('cost.gru', cost_gru, [396288, 1585152, 6340608, 25362432])
show('cost.lstm', cost_lstm, [527360, 2109440, 8437760, 33751040])
show('cost.convolution', cost_convolution, [196608, 786432, 3145728, 12582912])
show('cost.attention', cost_attention, [229888, 1318912, 11665408, 148897792])

# ---- Attention before 2017

def weights_of(scope, *names):
    return [given[f"{scope}.{name}"] for name in names]

scope = "translator.encoder"
there, first = gru(scope, x, translator_encoder_initial_hidden[0],
                   *weights_of(f"{scope}.layers.0.forward", "input_weights",
                               "recurrent_weights"))
back, second = gru(scope, x, translator_encoder_initial_hidden[1],
                   *weights_of(f"{scope}.layers.0.backward", "input_weights",
                               "recurrent_weights"),
                   direction="backward")
states = translator_encoder_layers_0_output = np.concatenate([there, back], axis=-1)
translator_encoder_final_hidden = np.stack([first, second])

hidden = translator_start
for i, word in enumerate(translator_words):
    scope = f"translator.word.{i}"
    w_query, w_key, w_score = weights_of(f"{scope}.attention", "query_weights",
                                         "key_weights", "score_weights")
    queries = hidden[None]
    query_part, key_part = queries @ w_query, states @ w_key
    units = np.tanh(query_part[:, None] + key_part)
    scores = units @ w_score
    weights = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    context = weights @ states
    keep_all(f"{scope}.attention",
             dict(queries=queries, query_part=query_part, key_part=key_part,
             hidden=units, scores=scores, weights=weights, context=context))
    steps = gru_cell(np.concatenate([word, context[0]]), hidden,
                     *weights_of(scope, "input_weights", "recurrent_weights"))
    keep_all(scope, steps)
    hidden = steps["hidden"]

show('translator.encoder.layers.0.output', translator_encoder_layers_0_output, [
    [0.0071, 0.5234, -0.5132, 0.3664],
    [-0.1685, 0.0036, -0.5645, 0.5430],
    [-0.4152, -0.0042, -0.3417, 0.4385],
    [-0.3318, -0.2044, 0.0385, 0.4055],
])
show('translator.word.0.attention.weights', translator_word_0_attention_weights, [[0.9350, 0.0404, 0.0184, 0.0062]])
show('translator.word.1.attention.weights', translator_word_1_attention_weights, [[0.9254, 0.0439, 0.0221, 0.0086]])
show('translator.word.2.attention.weights', translator_word_2_attention_weights, [[0.8854, 0.0636, 0.0368, 0.0142]])

print("all as on the page")
