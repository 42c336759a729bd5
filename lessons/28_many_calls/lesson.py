"""Lesson 28: one sequence, many calls, in NumPy: the lines of its page in their order, and the numbers that they start from.

It runs as it is, prints what the page shows, and stops where a number is another. Made of lesson.md by script/docs --pages.
"""

from pathlib import Path

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

stored = np.load(Path(__file__).with_name("lesson.npz"))
for path in stored.files:
    array = stored[path]
    keep(path, array.astype(float) if array.dtype == np.float32 else array, given)
keep('ids', np.array([2, 19, 15, 24, 32, 1, 10, 40, 16, 32, 46, 16, 48, 1, 17, 32, 56]), given)
keep('ends', np.array([6, 7, 11, 17]), given)
keep('width', np.array([6]), given)
keep('kept', np.array([1]), given)

# ---- 1. One call

def positions_of(order, begin, seen):
    return order

def mask_of(order, keys, begin, seen):
    width, kept = seen
    own = order[:, None]
    return (keys <= own) & ((keys > own - width) | (keys < kept))

def stays(keys, begin, end, seen):
    width, kept = seen
    return (keys >= end - width) | (keys < kept)

# ---- 1. One call

def softmax(a):
    e = np.exp(a - a.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)

def weights(name):
    return given[f"model.{name}"]

def through(name, x):
    return x @ weights(f"{name}_weights") + weights(f"{name}_bias")

def norm(name, x):
    distance = x - x.mean(axis=-1, keepdims=True)
    normalized = distance / np.sqrt((distance ** 2).mean(axis=-1, keepdims=True) + 1e-5)
    return normalized * weights(f"{name}_gain") + weights(f"{name}_bias")

def in_heads(x):
    return x.reshape(len(x), 4, -1).transpose(1, 0, 2)

def attend(layer, x, mask, past):
    y = norm(f"{layer}.norm1", x)
    roles = ("query", "key", "value")
    queries, keys, values = (through(f"{layer}.{role}", y) for role in roles)
    if past is not None:
        keys, values = np.vstack([past[0], keys]), np.vstack([past[1], values])
    scores = in_heads(queries) @ in_heads(keys).transpose(0, 2, 1) / np.sqrt(8)
    shares = softmax(np.where(mask, scores, -np.inf))
    context = (shares @ in_heads(values)).transpose(1, 0, 2).reshape(len(x), -1)
    x = x + through(f"{layer}.output", context)
    hidden = np.maximum(through(f"{layer}.hidden", norm(f"{layer}.norm2", x)), 0)
    return x + through(f"{layer}.back", hidden), (keys, values)

def one_call(begin, end, stored, seen, rules, note):
    """stored: which tokens are stored, and of each layer their keys and values"""
    past, layers = stored
    order = note("order", np.arange(begin, end))
    keys = np.concatenate([past, order]).astype(int)
    positions = note("positions", rules["positions"](order, begin, seen))
    mask = note("mask", rules["mask"](order, keys, begin, seen))
    x = weights("tokens")[ids[begin:end]] + weights("positions")[positions]
    stay, after = rules["stays"](keys, begin, end, seen), []
    for i in range(2):
        x, (all_keys, all_values) = attend(f"layers.{i}", x, mask, layers and layers[i])
        after.append((all_keys[stay], all_values[stay]))
    note("stored", keys[stay])
    return note("logits", norm("norm", x) @ weights("tokens").T), (keys[stay], after)

# ---- 2. Four calls

right = {"positions": positions_of, "mask": mask_of, "stays": stays}

def read(ends, seen, rules=right, scope=None):
    stored, logits = ([], None), []
    for i, (begin, end) in enumerate(zip([0, *ends], ends)):
        def note(name, array):
            return keep(f"{scope}.call.{i}.{name}", array) if scope else array
        found, stored = one_call(begin, end, stored, seen, rules, note)
        logits.append(found)
    return np.vstack(logits)

def off(found, expected):
    return np.abs(found - expected).max(axis=1)

n = len(ids)
at_once_logits = read([n], (n, 0), scope="at_once")
calls_logits = read(ends, (n, 0), scope="calls")
calls_off = off(calls_logits, at_once_logits)
calls_next = softmax(calls_logits[-1])

show('calls.call.0.positions', calls_call_0_positions, [0, 1, 2, 3, 4, 5])
show('calls.call.1.positions', calls_call_1_positions, [6])
show('calls.call.2.positions', calls_call_2_positions, [7, 8, 9, 10])
show('calls.call.3.positions', calls_call_3_positions, [11, 12, 13, 14, 15, 16])
show('calls.next[:24]', calls_next[:24], [
    3.104e-10, 5.738e-07, 1.355e-08, 5.750e-07, 6.001e-06, 4.891e-07, 3.103e-07, 1.384e-09, 1.954e-07,
    8.646e-09, 2.018e-08, 1.472e-08, 3.486e-06, 8.990e-07, 4.079e-08, 3.026e-07, 7.191e-07, 2.818e-06,
    1.916e-07, 3.561e-07, 3.180e-07, 3.755e-07, 2.837e-06, 1.774e-07,
])

# ---- 3. The two corners of a mask

key, query = np.arange(17), np.arange(6)[:, None]
corners_bottom_right = key <= query + 11
corners_top_left = key <= query
corners_seen = corners_bottom_right.sum(axis=1)
corners_seen_from_top_left = corners_top_left.sum(axis=1)

show('corners.seen', corners_seen, [12, 13, 14, 15, 16, 17])

# ---- 5. A ring that keeps the first tokens

seen = (width[0], kept[0])
ring_at_once_logits = read([n], seen, scope="ring.at_once")
ring_calls_logits = read(ends, seen, scope="ring.calls")
ring_calls_off = off(ring_calls_logits, ring_at_once_logits)

show('ring.calls.call.0.stored', ring_calls_call_0_stored, [0, 1, 2, 3, 4, 5])
show('ring.calls.call.1.stored', ring_calls_call_1_stored, [0, 1, 2, 3, 4, 5, 6])
show('ring.calls.call.2.stored', ring_calls_call_2_stored, [0, 5, 6, 7, 8, 9, 10])
show('ring.calls.call.3.stored', ring_calls_call_3_stored, [0, 11, 12, 13, 14, 15, 16])

# ---- What goes wrong without it

def unmasked(order, keys, begin, seen):
    one = mask_of(order, keys, begin, seen)
    return one if len(order) == 1 else np.ones_like(one)

def from_top_left(order, keys, begin, seen):
    one = mask_of(order, keys, begin, seen)
    return one if len(order) == 1 else one & np.tri(*one.shape, dtype=bool)

def without_overwritten(order, keys, begin, seen):
    width, kept = seen
    is_left = (keys > order[-1] - width) | (keys >= begin) | (keys < kept)
    return mask_of(order, keys, begin, seen) & is_left

mistakes = {
    "mask_skipped_with_cache": {"mask": unmasked},
    "chunk_masked_top_left": {"mask": from_top_left},
    "positions_restart": {"positions": lambda order, begin, seen: order - begin},
    "positions_one_ahead": {"positions": lambda order, begin, seen: order + (begin > 0)},
    "positions_stand_still": {
        "positions": lambda order, begin, seen: 0 * order + begin if begin else order},
    "cache_overwritten": {"stays": lambda keys, begin, end, seen: keys >= begin},
    "ring_written_first": {"mask": without_overwritten},
    "first_tokens_overwritten": {
        "stays": lambda keys, begin, end, seen: keys >= end - sum(seen)},
}
schedules = [range(1, n + 1), range(6, n + 1), [6, 10, 14, n], [6, n]]

for name, rules in mistakes.items():
    of_ring = name in ("ring_written_first", "first_tokens_overwritten")
    sees = seen if of_ring else (n, 0)
    whole = read([n], sees)
    found = [read(list(schedule), sees, {**right, **rules}) for schedule in schedules]
    differs = np.array([off(one, whole) for one in found])
    keep(f"mistakes.{name}.off", differs)
    keep(f"mistakes.{name}.wrong", (differs > 1e-9).sum(axis=1))
    keep(f"mistakes.{name}.apart", (off(found[1], found[2]) > 1e-9).sum())
    chances = [softmax(one[-1])[whole[-1].argmax()] for one in found]
    keep(f"mistakes.{name}.chance", np.array(chances))

show('mistakes.chunk_masked_top_left.chance', mistakes_chunk_masked_top_left_chance, [0.9976, 0.9976, 0.0000, 0.0626])
show('mistakes.positions_restart.chance', mistakes_positions_restart_chance, [0.0000, 0.0002, 0.3877, 0.8808])
show('mistakes.positions_one_ahead.off[0]', mistakes_positions_one_ahead_off[0], [
    0.0000, 10.0313, 2.5681, 1.1551, 2.3694, 3.2665, 1.6346, 4.2334, 2.0289, 2.8313, 1.0403, 0.7217,
    0.9309, 0.7552, 1.7597, 1.5129, 2.4066,
])
show('mistakes.positions_one_ahead.chance', mistakes_positions_one_ahead_chance, [0.9927, 0.9970, 0.9970, 0.9970])
show('mistakes.mask_skipped_with_cache.wrong', mistakes_mask_skipped_with_cache_wrong, [0, 17, 17, 17])
show('mistakes.mask_skipped_with_cache.apart', mistakes_mask_skipped_with_cache_apart, 11)
show('mistakes.chunk_masked_top_left.wrong', mistakes_chunk_masked_top_left_wrong, [0, 0, 11, 11])
show('mistakes.chunk_masked_top_left.apart', mistakes_chunk_masked_top_left_apart, 11)
show('mistakes.positions_restart.wrong', mistakes_positions_restart_wrong, [16, 11, 11, 11])
show('mistakes.positions_restart.apart', mistakes_positions_restart_apart, 10)
show('mistakes.positions_one_ahead.wrong', mistakes_positions_one_ahead_wrong, [16, 11, 11, 11])
show('mistakes.positions_one_ahead.apart', mistakes_positions_one_ahead_apart, 0)
show('mistakes.positions_stand_still.wrong', mistakes_positions_stand_still_wrong, [0, 0, 10, 10])
show('mistakes.positions_stand_still.apart', mistakes_positions_stand_still_apart, 10)
show('mistakes.cache_overwritten.wrong', mistakes_cache_overwritten_wrong, [15, 10, 7, 0])
show('mistakes.cache_overwritten.apart', mistakes_cache_overwritten_apart, 10)
show('mistakes.ring_written_first.wrong', mistakes_ring_written_first_wrong, [0, 0, 11, 10])
show('mistakes.ring_written_first.apart', mistakes_ring_written_first_apart, 11)
show('mistakes.first_tokens_overwritten.wrong', mistakes_first_tokens_overwritten_wrong, [9, 9, 7, 0])
show('mistakes.first_tokens_overwritten.apart', mistakes_first_tokens_overwritten_apart, 7)

print("all as on the page")
