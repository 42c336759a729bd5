"""Lesson 30: choosing words, and guessing ahead, in NumPy: the lines of its page in their order, and the numbers that they start from.

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
keep('ids', np.array([2, 19, 15, 24, 32, 1, 10]), given)
keep('temperature', np.array([2], float), given)
keep('top_k', np.array([4]), given)
keep('top_p', np.array([0.8], float), given)
keep('min_p', np.array([0.2], float), given)
keep('order.temperatures', np.array([0.5, 1, 2, 4], float), given)
keep('seed', np.array([35]), given)
keep('drafted', np.array([40, 16, 33, 46]), given)
keep('uniform', np.array([0.757539689540863, 0.23933494091033936, 0.4729328751564026, 0.029095590114593506], float), given)
keep('small.layers.0.norm1.gain', np.array([
    1.0283203125, 1.2265625, 1.0224609375, 1.005859375, 1.3115234375, 1.0966796875, 1.1826171875,
    1.1923828125, 1.013671875, 1.052734375, 1.140625, 1.1962890625, 1.3408203125, 1.1513671875,
    1.1943359375, 1.109375,
], float), given)
keep('small.layers.0.norm1.bias', np.array([
    0.22119140625, -0.0270843505859375, -0.277099609375, 0.04046630859375, 0.1572265625,
    -0.09625244140625, 0.06658935546875, -0.061004638671875, -0.0670166015625, 0.0151214599609375,
    0.132080078125, 0.109619140625, -0.00417327880859375, 0.052520751953125, -0.128173828125,
    -0.07305908203125,
], float), given)
keep('small.layers.0.self_attn.query_bias', np.array([
    0.4384765625, -0.60498046875, -0.16796875, 0.203369140625, 0.2110595703125, -0.232421875,
    -0.214111328125, 0.1004638671875, 0.20068359375, -0.016265869140625, 0.1810302734375, 0.299072265625,
    -0.11376953125, -0.1614990234375, 0.281005859375, 0.10687255859375,
], float), given)
keep('small.layers.0.self_attn.key_bias', np.array([
    -0.0035228729248046875, -0.0164031982421875, -0.005733489990234375, 0.00865936279296875,
    0.00923919677734375, -0.0007715225219726562, 0.0254974365234375, -0.0248565673828125,
    0.0009794235229492188, 0.0206756591796875, -0.026763916015625, -0.006786346435546875,
    -0.00933074951171875, 0.006805419921875, -0.0009169578552246094, 0.005001068115234375,
], float), given)
keep('small.layers.0.self_attn.value_bias', np.array([
    -0.0252685546875, -0.00525665283203125, 0.005420684814453125, 0.0950927734375, 0.111572265625,
    -0.052093505859375, -0.047027587890625, -0.0103759765625, -0.053436279296875, 0.0305633544921875,
    -0.06988525390625, -0.0240631103515625, 0.0134735107421875, 0.041534423828125, 0.006580352783203125,
    0.0304718017578125,
], float), given)
keep('small.layers.0.self_attn.output_bias', np.array([
    0.0015497207641601562, -0.03900146484375, 0.15771484375, 0.136962890625, -0.0017757415771484375,
    0.0145721435546875, 0.08929443359375, -0.0303955078125, 0.036468505859375, -0.0254669189453125,
    -0.08709716796875, -0.055267333984375, -0.076904296875, -0.060943603515625, 0.0343017578125,
    0.0047454833984375,
], float), given)
keep('small.layers.0.norm2.gain', np.array([
    1.27734375, 1.255859375, 1.1943359375, 1.369140625, 1.451171875, 1.37890625, 1.2734375, 1.22265625,
    1.2392578125, 1.263671875, 1.4462890625, 1.4697265625, 1.21484375, 1.3095703125, 1.3330078125,
    1.1201171875,
], float), given)
keep('small.layers.0.norm2.bias', np.array([
    0.0220489501953125, -0.0159454345703125, 0.0692138671875, 0.1478271484375, 0.0423583984375,
    0.055999755859375, 0.040679931640625, -0.059173583984375, -0.09332275390625, -0.035858154296875,
    -0.11602783203125, -0.0033054351806640625, -0.03924560546875, 0.01715087890625, 0.049530029296875,
    0.00777435302734375,
], float), given)
keep('small.layers.0.feed_forward.output_bias', np.array([
    0.06878662109375, -0.1353759765625, 0.232666015625, -0.03167724609375, 0.197509765625,
    0.041351318359375, 0.11376953125, -0.041900634765625, -0.00400543212890625, 0.032318115234375,
    0.147216796875, 0.1285400390625, -0.066162109375, -0.0221405029296875, 0.041778564453125,
    -0.15869140625,
], float), given)
keep('small.norm.gain', np.array([
    2.6640625, 2.5390625, 2.625, 2.294921875, 2.47265625, 2.484375, 2.486328125, 2.392578125, 2.6484375,
    2.3828125, 2.623046875, 2.466796875, 2.77734375, 2.12109375, 1.8203125, 1.591796875,
], float), given)
keep('small.norm.bias', np.array([
    -0.08062744140625, 0.042694091796875, 0.158935546875, 0.282470703125, -0.03460693359375,
    -0.183349609375, 0.11822509765625, 0.11614990234375, 0.126708984375, -0.01036834716796875,
    -0.07708740234375, 0.1160888671875, 0.0733642578125, -0.0567626953125, -0.3671875, -0.275146484375,
], float), given)
keep('large.token_embedding', given['words.token_embedding'], given)
keep('large.position_embedding.table', given['words.position_embedding.table'], given)
keep('large.layers.0.norm1.gain', given['words.layers.0.norm1.gain'], given)
keep('large.layers.0.norm1.bias', given['words.layers.0.norm1.bias'], given)
keep('large.layers.0.self_attn.query_weights', given['words.layers.0.self_attn.query_weights'], given)
keep('large.layers.0.self_attn.query_bias', given['words.layers.0.self_attn.query_bias'], given)
keep('large.layers.0.self_attn.key_weights', given['words.layers.0.self_attn.key_weights'], given)
keep('large.layers.0.self_attn.key_bias', given['words.layers.0.self_attn.key_bias'], given)
keep('large.layers.0.self_attn.value_weights', given['words.layers.0.self_attn.value_weights'], given)
keep('large.layers.0.self_attn.value_bias', given['words.layers.0.self_attn.value_bias'], given)
keep('large.layers.0.self_attn.output_weights', given['words.layers.0.self_attn.output_weights'], given)
keep('large.layers.0.self_attn.output_bias', given['words.layers.0.self_attn.output_bias'], given)
keep('large.layers.0.norm2.gain', given['words.layers.0.norm2.gain'], given)
keep('large.layers.0.norm2.bias', given['words.layers.0.norm2.bias'], given)
keep('large.layers.0.feed_forward.hidden_weights', given['words.layers.0.feed_forward.hidden_weights'], given)
keep('large.layers.0.feed_forward.hidden_bias', given['words.layers.0.feed_forward.hidden_bias'], given)
keep('large.layers.0.feed_forward.output_weights', given['words.layers.0.feed_forward.output_weights'], given)
keep('large.layers.0.feed_forward.output_bias', given['words.layers.0.feed_forward.output_bias'], given)
keep('large.layers.1.norm1.gain', given['words.layers.1.norm1.gain'], given)
keep('large.layers.1.norm1.bias', given['words.layers.1.norm1.bias'], given)
keep('large.layers.1.self_attn.query_weights', given['words.layers.1.self_attn.query_weights'], given)
keep('large.layers.1.self_attn.query_bias', given['words.layers.1.self_attn.query_bias'], given)
keep('large.layers.1.self_attn.key_weights', given['words.layers.1.self_attn.key_weights'], given)
keep('large.layers.1.self_attn.key_bias', given['words.layers.1.self_attn.key_bias'], given)
keep('large.layers.1.self_attn.value_weights', given['words.layers.1.self_attn.value_weights'], given)
keep('large.layers.1.self_attn.value_bias', given['words.layers.1.self_attn.value_bias'], given)
keep('large.layers.1.self_attn.output_weights', given['words.layers.1.self_attn.output_weights'], given)
keep('large.layers.1.self_attn.output_bias', given['words.layers.1.self_attn.output_bias'], given)
keep('large.layers.1.norm2.gain', given['words.layers.1.norm2.gain'], given)
keep('large.layers.1.norm2.bias', given['words.layers.1.norm2.bias'], given)
keep('large.layers.1.feed_forward.hidden_weights', given['words.layers.1.feed_forward.hidden_weights'], given)
keep('large.layers.1.feed_forward.hidden_bias', given['words.layers.1.feed_forward.hidden_bias'], given)
keep('large.layers.1.feed_forward.output_weights', given['words.layers.1.feed_forward.output_weights'], given)
keep('large.layers.1.feed_forward.output_bias', given['words.layers.1.feed_forward.output_bias'], given)
keep('large.norm.gain', given['words.norm.gain'], given)
keep('large.norm.bias', given['words.norm.bias'], given)
keep('counted.place', np.array(1), given)
keep('saved.rate', np.array([0.5, 0.6, 0.7, 0.8, 0.9], float), given)
keep('saved.guesses', np.array([1, 2, 3, 4, 6, 8], float), given)
keep('saved.cost', np.array(0.2, float), given)

# ---- 1. What can come, and what is cut

def softmax(a):
    e = np.exp(a - a.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)

def linear(scope, name, x):
    return x @ given[f"{scope}.{name}_weights"] + given[f"{scope}.{name}_bias"]

def norm(scope, x):
    distance = x - x.mean(axis=-1, keepdims=True)
    normalized = distance / np.sqrt((distance ** 2).mean(axis=-1, keepdims=True) + 1e-5)
    return normalized * given[f"{scope}.gain"] + given[f"{scope}.bias"]

def attend(q, k, v):
    scores = q @ k.T / np.sqrt(q.shape[-1])
    return softmax(np.where(np.tri(len(q), dtype=bool), scores, -np.inf)) @ v

def read(scope, ids, layers, heads=4):
    table = given[f"{scope}.token_embedding"]
    x = table[ids] + given[f"{scope}.position_embedding.table"][:len(ids)]
    for i in range(layers):
        layer = f"{scope}.layers.{i}"
        y = norm(f"{layer}.norm1", x)
        shares = [np.hsplit(linear(f"{layer}.self_attn", name, y), heads)
                  for name in ("query", "key", "value")]
        contexts = [attend(*share) for share in zip(*shares)]
        x = x + linear(f"{layer}.self_attn", "output", np.hstack(contexts))
        hidden = linear(f"{layer}.feed_forward", "hidden", norm(f"{layer}.norm2", x))
        x = x + linear(f"{layer}.feed_forward", "output", np.maximum(hidden, 0))
    return keep(f"{scope}.logits", norm(f"{scope}.norm", x) @ table.T)

logits = read("words", ids, layers=2)[-1:]
chances = softmax(logits / temperature)

def sum_before(chances):
    order = np.argsort(-chances, kind="stable")
    falling = chances[order]
    before = np.zeros_like(chances)
    before[order] = np.cumsum(falling) - falling
    return before

before = sum_before(chances[0])
among_k = (np.argsort(np.argsort(-chances[0], kind="stable")) < top_k[0])[None, :]
in_nucleus = before[None, :] < top_p
likely = chances >= min_p * chances.max()

def in_proportion(kept):
    return kept / kept.sum(axis=1, keepdims=True)

by_k, by_p, by_min_p = [in_proportion(np.where(mask, chances, 0))
                        for mask in (among_k, in_nucleus, likely)]
kept_by_k, kept_by_p, kept_by_min_p = among_k.sum(), in_nucleus.sum(), likely.sum()

show('chances[0][:24]', chances[0][:24], [
    0.0001, 0.0001, 0.0010, 0.0007, 0.0017, 0.0009, 0.0004, 0.0006, 0.0003, 0.0002, 0.0046, 0.0028,
    0.0029, 0.0008, 0.0018, 0.0002, 0.0017, 0.0000, 0.0001, 0.0004, 0.0006, 0.0005, 0.0012, 0.0014,
])
show('before[:24]', before[:24], [
    0.9994, 0.9989, 0.9841, 0.9896, 0.9715, 0.9870, 0.9956, 0.9909, 0.9967, 0.9982, 0.9555, 0.9630,
    0.9601, 0.9888, 0.9697, 0.9987, 0.9732, 0.9998, 0.9993, 0.9952, 0.9921, 0.9947, 0.9818, 0.9777,
])
show('by_k[0][:24]', by_k[0][:24], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
show('by_p[0][:24]', by_p[0][:24], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
show('by_min_p[0][:24]', by_min_p[0][:24], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])

# ---- 1. What can come, and what is cut

scaled = keep("together.scaled", logits / temperature)
left = keep("together.left", np.where(among_k, scaled, -np.inf))
shares = keep("together.chances", softmax(left))
share_before = keep("together.before", sum_before(shares[0])[None, :])
still = (share_before < top_p) & (shares >= min_p * shares.max())
keep("together.probabilities", in_proportion(np.where(still, shares, 0)))

show('together.chances[0][:24]', together_chances[0][:24], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])

# ---- 2. The order of temperature and cuts

order_divided = logits / order_temperatures[:, None]
order_chances = softmax(order_divided)

def nucleus(chances):
    return np.where(sum_before(chances) < top_p, chances, 0)

order_probabilities = in_proportion(np.array([nucleus(row) for row in order_chances]))
order_sizes = (order_probabilities > 0).sum(axis=1)

show('order.sizes', order_sizes, [4, 4, 5, 23])

# ---- 3. A draft guesses, the model judges

n, k = len(ids), len(drafted)
text = np.concatenate([ids, drafted])
guess_draft = softmax(read("small", text, layers=1)[n - 1:n - 1 + k])
guess_target = softmax(read("large", text, layers=2)[n - 1:n + k])

def speculate(drafted, draft, target, uniform):
    # how many guesses stand, and the probabilities of the next word
    for i, word in enumerate(drafted):
        if uniform[i] >= min(1, target[i, word] / draft[i, word]):
            excess = np.maximum(target[i] - draft[i], 0)
            return i, excess / excess.sum()
    return len(drafted), target[-1]

guess_q, guess_p = guess_draft[range(k), drafted], guess_target[range(k), drafted]
guess_acceptance = np.minimum(guess_p / guess_q, 1)
guess_accepted, guess_next = speculate(drafted, guess_draft, guess_target, uniform)

show('guess.draft[0][:24]', guess_draft[0][:24], [
    3.781e-07, 4.298e-07, 3.579e-08, 2.285e-08, 1.774e-08, 6.214e-07, 9.200e-07, 4.260e-08, 3.151e-07,
    6.687e-08, 3.039e-05, 3.284e-07, 8.135e-06, 6.085e-06, 1.667e-06, 1.789e-07, 1.933e-07, 5.510e-07,
    2.730e-08, 5.013e-07, 8.195e-07, 7.082e-07, 6.683e-08, 3.927e-08,
])
show('guess.q', guess_q, [0.3209, 0.6079, 0.0579, 0.9972])
show('guess.p', guess_p, [0.3198, 0.5371, 0.0003, 1.0000])
show('guess.acceptance', guess_acceptance, [0.9966, 0.8835, 0.0058, 1.0000])
show('guess.next[:24]', guess_next[:24], [
    0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000,
    0.0000, 0.0000, 0.0000, 0.0012, 0.0000, 0.0002, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000,
])

# ---- 4. The distribution is the model's own

exact_target = guess_target[:k]
exact_both = np.minimum(exact_target, guess_draft)
exact_accepted = exact_both.sum(axis=1)
exact_excess = np.maximum(exact_target - guess_draft, 0)
exact_next = exact_excess / exact_excess.sum(axis=1, keepdims=True)
rejected = 1 - exact_accepted[:, None]
exact_result = exact_both + rejected * exact_next
exact_again = exact_both + rejected * exact_target
exact_again_off = np.abs(exact_again - exact_target).sum(axis=1) / 2
exact_draft_off = np.abs(guess_draft - exact_target).sum(axis=1) / 2

show('exact.both[0][:24]', exact_both[0][:24], [
    4.585e-08, 7.369e-08, 3.579e-08, 2.285e-08, 1.774e-08, 6.214e-07, 9.200e-07, 4.260e-08, 3.151e-07,
    6.687e-08, 3.039e-05, 3.284e-07, 8.135e-06, 3.578e-06, 1.667e-06, 1.789e-07, 1.933e-07, 1.365e-08,
    2.730e-08, 5.013e-07, 8.195e-07, 7.082e-07, 6.683e-08, 3.927e-08,
])
show('exact.result[0][:24]', exact_result[0][:24], [
    4.585e-08, 7.369e-08, 5.686e-06, 2.743e-06, 1.617e-05, 4.843e-06, 9.418e-07, 2.174e-06, 6.419e-07,
    3.321e-07, 1.179e-04, 4.288e-05, 4.670e-05, 3.578e-06, 1.730e-05, 2.750e-07, 1.548e-05, 1.365e-08,
    5.010e-08, 9.767e-07, 1.744e-06, 1.163e-06, 8.111e-06, 1.091e-05,
])
show('exact.again_off', exact_again_off, [0.0152, 0.0632, 0.0005, 0.0000])

# ---- 4. The distribution is the model's own

def draw(chances, number):
    return np.searchsorted(np.cumsum(chances), number, side="right")

def random_numbers(seed, count):   # from 0, below 1: docs/notation.md has the recipe
    z = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = z + np.uint64(seed)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((z ^ (z >> np.uint64(31))) >> np.uint64(40)) / 2 ** 24

def count(place, draws=10000):
    draft, target = guess_draft[place], guess_target[place]
    words, again = np.zeros(len(target)), np.zeros(len(target))
    for first, number, second in random_numbers(30, 3 * draws).reshape(draws, 3):
        word = draw(draft, first)
        stands, chances = speculate([word], draft[None], target[None], [number])
        words[word if stands else draw(chances, second)] += 1
        again[word if stands else draw(target, second)] += 1
    return words, again

counted_words, counted_again = count(int(counted_place))
counted_share, counted_again_share = counted_words / 10000, counted_again / 10000

show('counted.share[:24]', counted_share[:24], [
    0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000,
    0.2437, 0.0022, 0.2184, 0.0000, 0.5349, 0.0000, 0.0000, 0.0001, 0.0000, 0.0003, 0.0000, 0.0000,
])
show('counted.again_share[:24]', counted_again_share[:24], [
    0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000,
    0.2626, 0.0026, 0.1581, 0.0000, 0.5765, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000, 0.0000,
])

# ---- 5. What it saves

saved_words = (1 - saved_rate[:, None] ** (saved_guesses + 1)) / (1 - saved_rate[:, None])
saved_faster = saved_words / (1 + saved_cost * saved_guesses)

show('saved.faster[0]', saved_faster[0], [1.2500, 1.2500, 1.1719, 1.0764, 0.9020, 0.7677])

print("all as on the page")
