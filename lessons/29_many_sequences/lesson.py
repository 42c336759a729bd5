"""Lesson 29: many sequences at once, in NumPy: the lines of its page in their order, and the numbers that they start from.

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
keep('lengths', np.array([9, 17, 6]), given)
keep('wanted', np.array([3, 9, 2, 4, 6, 2]), given)
keep('pages.request.0.last', np.array([8]), given)
keep('pages.request.0.table', np.array([0, 1, 3]), given)
keep('pages.request.0.beyond.table', given['pages.request.0.table'], given)
keep('pages.tokens', given['lengths'], given)
keep('pages.users', np.array([2, 1, 1, 1, 1, 1, 1, 1, 1, 0]), given)
keep('published.layers', np.array([40, 32]), given)
keep('published.groups', np.array([40, 8]), given)
keep('published.d_k', np.full((2,), 128), given)
keep('published.memory', np.array(12884901888), given)
keep('published.held', np.array([57, 130, 310, 499, 733, 1024, 1410, 1993]), given)

# ---- Step by step

starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
words = token_embedding[np.append(ids, 0)]

show('words[0][:24]', words[0][:24], [
    0.4621, -0.0484, 0.1303, 0.6286, -0.1305, -0.0045, -0.0686, -0.3023, -0.2489, -0.3471, -0.7740,
    -0.0037, 0.2907, -0.5723, 0.0567, -0.1211, 0.5515, 0.1868, -0.3331, -0.6271, 0.0828, 0.0124, 0.8404,
    0.2394,
])

# ---- 1. Padding on either side

longest = lengths.max()
place = np.arange(longest)

def batch(scope, real):
    keep(f"{scope}.real", real)
    positions = np.maximum(np.cumsum(real, axis=1) - 1, 0)
    keep(f"{scope}.positions", positions)
    return keep(f"{scope}.source", np.where(real, starts[:, None] + positions, len(ids)))

on_right = place < lengths[:, None]
on_left = place >= longest - lengths[:, None]
batch("right", on_right)
batch("left", on_left)

show('left.real[0]', left_real[0], [
    False, False, False, False, False, False, False, False, True, True, True, True, True, True, True,
    True, True,
])
show('left.positions[0]', left_positions[0], [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8])

# ---- 1. Padding on either side

def softmax(a):
    largest = a.max(axis=-1, keepdims=True)
    e = np.exp(a - np.where(largest == -np.inf, 0, largest))
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total == 0, 1, total)

def linear(name, x):
    return x @ given[f"right.{name}_weights"] + given[f"right.{name}_bias"]

def norm(name, x):
    distance = x - x.mean(axis=-1, keepdims=True)
    normalized = distance / np.sqrt((distance ** 2).mean(axis=-1, keepdims=True) + 1e-5)
    return normalized * given[f"right.{name}.gain"] + given[f"right.{name}.bias"]

def attend(q, k, v, mask):
    scores = np.where(mask, q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]), -np.inf)
    return softmax(scores) @ v

def read(scope, x, mask, ends):
    for i in range(2):
        y = norm(f"layers.{i}.norm1", x)
        shares = [np.split(linear(f"layers.{i}.self_attn.{name}", y), 4, axis=-1)
                  for name in ("query", "key", "value")]
        contexts = [attend(*share, mask) for share in zip(*shares)]
        x = x + linear(f"layers.{i}.self_attn.output", np.concatenate(contexts, axis=-1))
        hidden = linear(f"layers.{i}.feed_forward.hidden", norm(f"layers.{i}.norm2", x))
        x = x + linear(f"layers.{i}.feed_forward.output", np.maximum(hidden, 0))
    rows = norm("norm", x).reshape(-1, x.shape[-1])
    return rows, keep(f"{scope}.chances", softmax(rows[ends] @ token_embedding.T))

causal = place <= place[:, None]

def read_batch(scope, side, positions, mask, columns):
    x = words[mine[f"{side}.source"]] + position_embedding[positions]
    return read(scope, x, mask, longest * np.arange(len(lengths)) + columns)

last = longest - 1
right_rows, chances = read_batch("right", "right", right_positions,
                                 causal & on_right[:, None], lengths - 1)
read_batch("left", "left", left_positions, causal & on_left[:, None], last)

show('right.chances[0][:24]', right_chances[0][:24], [
    1.184e-09, 2.177e-07, 9.193e-09, 2.243e-05, 4.360e-08, 2.029e-08, 2.060e-07, 6.261e-10, 1.358e-05,
    2.371e-06, 2.652e-06, 1.876e-06, 6.639e-08, 4.465e-06, 5.021e-06, 2.609e-04, 1.059e-06, 5.675e-05,
    2.578e-05, 8.027e-07, 7.603e-07, 7.754e-07, 1.418e-07, 1.960e-07,
])
show('left.chances[0][:24]', left_chances[0][:24], [
    1.184e-09, 2.177e-07, 9.193e-09, 2.243e-05, 4.360e-08, 2.029e-08, 2.060e-07, 6.261e-10, 1.358e-05,
    2.371e-06, 2.652e-06, 1.876e-06, 6.639e-08, 4.465e-06, 5.021e-06, 2.609e-04, 1.059e-06, 5.675e-05,
    2.578e-05, 8.027e-07, 7.603e-07, 7.754e-07, 1.418e-07, 1.960e-07,
])

# ---- 1. Padding on either side

keep("right.column.chances",
     softmax(right_rows[longest * np.arange(3) + last] @ token_embedding.T))
read_batch("left.counted", "left", place, causal & on_left[:, None], last)
read_batch("left.seen", "left", left_positions, causal, last)

show('right.column.chances[0][:24]', right_column_chances[0][:24], [
    0.0007, 0.0000, 0.0001, 0.0001, 0.0004, 0.0003, 0.0000, 0.0001, 0.0001, 0.0000, 0.0001, 0.0000,
    0.0004, 0.0001, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0063, 0.0067,
])
show('left.counted.chances[0][:24]', left_counted_chances[0][:24], [
    0.0000, 0.0001, 0.0000, 0.0002, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000,
    0.0000, 0.0001, 0.0000, 0.0043, 0.0000, 0.0001, 0.0000, 0.0001, 0.0000, 0.0000, 0.0000, 0.0000,
])
show('left.seen.chances[0][:24]', left_seen_chances[0][:24], [
    1.040e-08, 1.369e-05, 2.622e-08, 1.271e-05, 5.548e-06, 2.467e-07, 1.733e-07, 5.000e-09, 1.629e-06,
    1.833e-07, 3.456e-05, 1.451e-07, 5.127e-07, 1.855e-07, 1.443e-05, 6.634e-06, 1.685e-05, 2.805e-05,
    2.991e-06, 1.855e-05, 1.673e-05, 1.445e-05, 9.245e-07, 7.063e-07,
])

# ---- 2. Packed into one row

row = np.arange(len(ids))
packed_begun = row[:, None] >= starts
packed_request = packed_begun.sum(axis=1) - 1
packed_positions = row - starts[packed_request]
packed_same = packed_request == packed_request[:, None]
packed_causal = row <= row[:, None]
packed_mask = packed_same & packed_causal
packed_ends = starts + lengths - 1
packed_embedded = words[:-1] + position_embedding[packed_positions]
read("packed", packed_embedded, packed_mask, packed_ends)
read("packed.leaking", packed_embedded, packed_causal, packed_ends)
read("packed.row", words[:-1] + position_embedding[row], packed_mask, packed_ends)

show('packed.chances[0][:24]', packed_chances[0][:24], [
    1.184e-09, 2.177e-07, 9.193e-09, 2.243e-05, 4.360e-08, 2.029e-08, 2.060e-07, 6.261e-10, 1.358e-05,
    2.371e-06, 2.652e-06, 1.876e-06, 6.639e-08, 4.465e-06, 5.021e-06, 2.609e-04, 1.059e-06, 5.675e-05,
    2.578e-05, 8.027e-07, 7.603e-07, 7.754e-07, 1.418e-07, 1.960e-07,
])
show('packed.leaking.chances[0][:24]', packed_leaking_chances[0][:24], [
    1.184e-09, 2.177e-07, 9.193e-09, 2.243e-05, 4.360e-08, 2.029e-08, 2.060e-07, 6.261e-10, 1.358e-05,
    2.371e-06, 2.652e-06, 1.876e-06, 6.639e-08, 4.465e-06, 5.021e-06, 2.609e-04, 1.059e-06, 5.675e-05,
    2.578e-05, 8.027e-07, 7.603e-07, 7.754e-07, 1.418e-07, 1.960e-07,
])
show('packed.row.chances[0][:24]', packed_row_chances[0][:24], [
    1.184e-09, 2.177e-07, 9.193e-09, 2.243e-05, 4.360e-08, 2.029e-08, 2.060e-07, 6.261e-10, 1.358e-05,
    2.371e-06, 2.652e-06, 1.876e-06, 6.639e-08, 4.465e-06, 5.021e-06, 2.609e-04, 1.059e-06, 5.675e-05,
    2.578e-05, 8.027e-07, 7.603e-07, 7.754e-07, 1.418e-07, 1.960e-07,
])

# ---- 3. Requests that come and go

calls_together = sum(wanted[i:i + 3].max() for i in range(0, 6, 3))
busy = np.zeros(3)
for i, words_of_answer in enumerate(wanted):
    begins = keep(f"calls.answer.{i}.begins", busy.min())
    busy[busy.argmin()] = begins + words_of_answer
calls_joining = busy.max()
calls_share_together = wanted.sum() / (3 * calls_together)
calls_share_joining = wanted.sum() / (3 * calls_joining)

show('calls.together', calls_together, 15)
show('calls.joining', calls_joining, 9)
show('calls.share_together', calls_share_together, 0.5778)
show('calls.share_joining', calls_share_joining, 0.9630)

# ---- 4. Pages

def paged(rows):
    return np.vstack([rows, np.zeros(8)])[pages_written]

y = norm("layers.0.norm1", packed_embedded)
roles = ("query", "key", "value")
head = {role: linear(f"layers.0.self_attn.{role}", y)[:, :8] for role in roles}
pages_key_pool = paged(head["key"])
pages_value_pool = paged(head["value"])

show('pages.value_pool[0]', pages_value_pool[0], [0.7436, -0.2969, 0.1662, 0.5514, -0.6598, -0.9581, 0.4391, 1.1017])

# ---- 4. Pages

def read_pages(scope, tokens):
    table, last_word = given[f"{scope}.table"], pages_request_0_last
    i = np.arange(tokens)
    slots = keep(f"{scope}.slots", 4 * table[i // 4] + i % 4)
    query = head["query"][last_word]
    keys, values = pages_key_pool[slots], pages_value_pool[slots]
    weights = keep(f"{scope}.weights", softmax(query @ keys.T / np.sqrt(8)))
    return keep(f"{scope}.context", weights @ values)

right_context = read_pages("pages.request.0", 9)
beyond_context = read_pages("pages.request.0.beyond", 12)
pages_request_0_beyond_off = np.abs(beyond_context - right_context).max()

show('pages.request.0.slots', pages_request_0_slots, [0, 1, 2, 3, 4, 5, 6, 7, 12])
show('pages.request.0.weights', pages_request_0_weights, [[0.0152, 0.0250, 0.0180, 0.0048, 0.0527, 0.8750, 0.0078, 0.0001, 0.0014]])
show('pages.request.0.beyond.weights', pages_request_0_beyond_weights, [[0.0049, 0.0081, 0.0058, 0.0016, 0.0171, 0.2836, 0.0025, 0.0000, 0.0005, 0.4458, 0.1203, 0.1098]])
show('pages.request.0.beyond.off', pages_request_0_beyond_off, 0.3755)

# ---- 4. Pages

pages_used = (pages_users > 0).sum()
pages_shared = pages_users.sum() - pages_used
pages_blocks = (pages_tokens + 4 - 1) // 4
pages_rest = 4 * pages_blocks - pages_tokens

show('pages.used', pages_used, 9)
show('pages.shared', pages_shared, 1)
show('pages.rest', pages_rest, [3, 3, 2])

# ---- What it costs

published_bytes = published_layers * published_groups * published_d_k * 2 * 2
published_rows = published_memory // published_bytes

show('published.bytes', published_bytes, [819200, 131072])
show('published.rows', published_rows, [15728, 98304])

# ---- What it costs

held = published_held
published_reserved = len(held) * 2048
published_padded = len(held) * held.max()
published_packed = held.sum()
published_paged = 16 * ((held + 16 - 1) // 16).sum()
ways = {"reserved": published_reserved, "padded": published_padded,
        "paged": published_paged, "packed": published_packed}
for way, rows in ways.items():
    keep(f"published.if_{way}.share", published_packed / rows)
    keep(f"published.if_{way}.gib", rows * published_bytes / 2 ** 30)

show('published.reserved', published_reserved, 16384)
show('published.padded', published_padded, 15944)
show('published.packed', published_packed, 6156)
show('published.paged', published_paged, 6224)
show('published.if_reserved.share', published_if_reserved_share, 0.3757)
show('published.if_reserved.gib', published_if_reserved_gib, [12.5000, 2.0000])
show('published.if_padded.share', published_if_padded_share, 0.3861)
show('published.if_padded.gib', published_if_padded_gib, [12.1643, 1.9463])
show('published.if_paged.share', published_if_paged_share, 0.9891)
show('published.if_paged.gib', published_if_paged_gib, [4.7485, 0.7598])
show('published.if_packed.gib', published_if_packed_gib, [4.6967, 0.7515])

# ---- What it costs

published_mean = 161.31 + 337.99 / 2
published_share_reserved = published_mean / 2048
published_share_paged = published_mean / (published_mean + (16 - 1) / 2)
published_fit_paged = published_rows // (published_mean + (16 - 1) / 2)

show('published.mean', published_mean, 330.3050)
show('published.share_reserved', published_share_reserved, 0.1613)
show('published.share_paged', published_share_paged, 0.9778)
show('published.fit_paged', published_fit_paged, [46, 291])

print("all as on the page")
