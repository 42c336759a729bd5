"""Lesson 18: flash attention, in NumPy: the lines of its page in their order, and the numbers that they start from.

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

keep('cost.n', np.array([1024, 4096, 16384, 65536]), given)
keep('row', np.array([1, 5, 3, 6, 2, 4], float), given)
keep('one_pass.start.largest', np.array(-np.inf, float), given)
keep('one_pass.start.sum', np.array(0, float), given)
keep('queries', np.array([
    [
        -0.13128961886854046, 1.2629396095041299, -1.0188526635244028, 2.6451730614059032,
        1.0199686355188464, -0.9019121859801325, 0.05039900789690144, -0.1317966224785765,
    ],
    [
        -0.3666106134074038, -0.865964658226575, -0.3959600230123849, 0.3673721834115296, 1.5622932803757563,
        -1.8936772007703313, 1.031267341783803, 0.4151197912312777,
    ],
], float), given)
keep('keys', np.array([
    [
        0.6096517773813417, -1.2694823717232233, 0.5649924471828378, -0.8355400795108967,
        -1.5531694696281353, 0.5197819051874651, 1.9856239654975096, -2.09983092583905,
    ],
    [
        -0.7665487995487986, -0.6715297127891044, -0.09343506441139748, -2.944581473061856,
        -2.378986392401572, 0.5400738035893576, 1.0035888489604874, -0.08982263661217746,
    ],
    [
        1.6075419816662502, -1.2713230396893682, 1.237754187513137, -0.9104249718591599, 0.8622341974976062,
        -0.17188575292432998, 0.4460641907553466, 0.7957686032772849,
    ],
    [
        1.7761789145603613, 1.0663293928618707, -0.7672765600952944, 0.49261885596672306,
        -0.36442052734450037, 1.3785147550059116, 0.7907180507090307, 0.2667620582359415,
    ],
    [
        -0.7452349340939336, -1.7428486376534447, 0.29944830627068475, -1.04966634015081, 1.1205510374531287,
        0.6624387816973992, 0.007660823878907333, -0.2665843036633843,
    ],
    [
        -0.7063917934346764, 0.5346888280976552, 2.4396637464895017, 0.9609602405173107, 0.2782215167656313,
        -0.39928803813158814, -1.0556145887817294, -0.6543561547567024,
    ],
    [
        -0.04515454775073946, -0.6419239034296087, 0.563264335269817, 0.257353532303328, 1.328340822267544,
        -1.1568168538978627, 1.0446608051032427, -0.30028334907700044,
    ],
], float), given)
keep('values', np.array([
    [
        -0.8646536103989623, -1.0415278447666025, 1.0697679746540716, -0.65374271671754, 0.979067302293333,
        -0.811476442333439, 0.31201871477781623, 0.8933123585997242,
    ],
    [
        -0.2983398110917481, 0.3545281123907719, 0.16502167721070948, -0.09080440471263497,
        0.14455228074148527, -0.5927335001969496, -0.44549032830529645, -1.1461551761859292,
    ],
    [
        1.384871208844321, 0.7924658378247486, 0.4703234085939265, 0.23580255446807247, 0.1299189232678153,
        0.3357584436158534, -0.30821369988544567, 0.05469188256112724,
    ],
    [
        0.22851253091472823, 1.160300013263146, -0.3191888522374984, -0.7910890443113966,
        -0.40275320460262587, 0.8850202723723829, 0.17277347372527255, 0.2708382157365877,
    ],
    [
        0.015644350718151304, -1.2220519223392907, 0.2847760567554366, -0.0095095131493305,
        -0.17812343737986733, -0.17436091120830852, 0.4984912070085379, 0.24866790589374926,
    ],
    [
        -1.5468610337929851, -0.9083692038215053, -0.30834323308548717, 1.1153165826812084,
        -0.14792573283476176, 0.98904612792145, 1.5051323770626013, 0.16167737141895855,
    ],
    [
        -0.41291820805154955, 0.050326451175748646, -0.7216346941113995, -0.11594806188142505,
        0.16929578512438007, 0.03335487900874022, 0.2375950879413684, -0.3321842669937467,
    ],
], float), given)
keep('start.largest', np.full((2,), -np.inf, float), given)
keep('start.sum', np.full((2,), 0, float), given)
keep('start.partial', np.full((2, 8), 0, float), given)
keep('arriving', drawn(18, 0, (2, 8), 1.0), given)
keep('back.start.grad_queries', np.full((2, 8), 0, float), given)
keep('kernel.n', np.array(300), given)
keep('kernel.rows', np.array(60), given)
keep('kernel.columns', np.array(128), given)
keep('kernel.tiles', np.array(15), given)
keep('kernel.met', np.array(9), given)

# ---- The question

cost_scores_mib = 4 * cost_n**2 / 2**20
cost_sums_mib = 4 * 2 * cost_n / 2**20

show('cost.scores_mib', cost_scores_mib, [4, 64, 1024, 16384])
show('cost.sums_mib', cost_sums_mib, [0.0078, 0.0312, 0.1250, 0.5000])

# ---- 1. Two passes over a row

two_passes_largest = row.max()
two_passes_exponentials = np.exp(row - two_passes_largest)
two_passes_sum = two_passes_exponentials.sum()
two_passes_weights = two_passes_exponentials / two_passes_sum

show('two_passes.largest', two_passes_largest, 6)
show('two_passes.sum', two_passes_sum, 1.5781)
show('two_passes.weights', two_passes_weights, [0.0043, 0.2331, 0.0315, 0.6337, 0.0116, 0.0858])

# ---- 2. One pass

largest, total, found = one_pass_start_largest, one_pass_start_sum, []
for score in row:
    before, largest = largest, max(score, largest)
    correction = np.exp(before - largest)
    total = total * correction + np.exp(score - largest)
    found.append((largest, correction, total))

(one_pass_key_0_largest, one_pass_key_0_correction, one_pass_key_0_sum) = found[0]
(one_pass_key_1_largest, one_pass_key_1_correction, one_pass_key_1_sum) = found[1]
(one_pass_key_2_largest, one_pass_key_2_correction, one_pass_key_2_sum) = found[2]
(one_pass_key_3_largest, one_pass_key_3_correction, one_pass_key_3_sum) = found[3]
(one_pass_key_4_largest, one_pass_key_4_correction, one_pass_key_4_sum) = found[4]
(one_pass_key_5_largest, one_pass_key_5_correction, one_pass_key_5_sum) = found[5]
one_pass_weights = np.exp(row - largest) / total

show('one_pass.key.0.largest', one_pass_key_0_largest, 1)
show('one_pass.key.0.correction', one_pass_key_0_correction, 0)
show('one_pass.key.0.sum', one_pass_key_0_sum, 1)
show('one_pass.key.1.largest', one_pass_key_1_largest, 5)
show('one_pass.key.1.correction', one_pass_key_1_correction, 0.0183)
show('one_pass.key.1.sum', one_pass_key_1_sum, 1.0183)
show('one_pass.key.2.largest', one_pass_key_2_largest, 5)
show('one_pass.key.2.correction', one_pass_key_2_correction, 1)
show('one_pass.key.2.sum', one_pass_key_2_sum, 1.1537)
show('one_pass.key.3.largest', one_pass_key_3_largest, 6)
show('one_pass.key.3.correction', one_pass_key_3_correction, 0.3679)
show('one_pass.key.3.sum', one_pass_key_3_sum, 1.4244)
show('one_pass.key.4.largest', one_pass_key_4_largest, 6)
show('one_pass.key.4.correction', one_pass_key_4_correction, 1)
show('one_pass.key.4.sum', one_pass_key_4_sum, 1.4427)
show('one_pass.key.5.largest', one_pass_key_5_largest, 6)
show('one_pass.key.5.correction', one_pass_key_5_correction, 1)
show('one_pass.key.5.sum', one_pass_key_5_sum, 1.5781)

# ---- 3. By tiles

def sums(scores):
    return scores.max(), np.exp(scores - scores.max()).sum()

def merge(first, second):
    largest = max(first[0], second[0])
    return largest, sum(l * np.exp(m - largest) for m, l in (first, second))

by_tiles_tile_0_largest, by_tiles_tile_0_sum = sums(row[0:2])
by_tiles_tile_1_largest, by_tiles_tile_1_sum = sums(row[2:4])
by_tiles_tile_2_largest, by_tiles_tile_2_sum = sums(row[4:6])
by_tiles_merged_1_largest, by_tiles_merged_1_sum = merge(sums(row[0:2]), sums(row[2:4]))
by_tiles_merged_2_largest, by_tiles_merged_2_sum = merge(
    (by_tiles_merged_1_largest, by_tiles_merged_1_sum), sums(row[4:6]))
by_tiles_weights = np.exp(row - by_tiles_merged_2_largest) / by_tiles_merged_2_sum

show('by_tiles.tile.0.largest', by_tiles_tile_0_largest, 5)
show('by_tiles.tile.0.sum', by_tiles_tile_0_sum, 1.0183)
show('by_tiles.tile.1.largest', by_tiles_tile_1_largest, 6)
show('by_tiles.tile.1.sum', by_tiles_tile_1_sum, 1.0498)
show('by_tiles.tile.2.largest', by_tiles_tile_2_largest, 4)
show('by_tiles.tile.2.sum', by_tiles_tile_2_sum, 1.1353)
show('by_tiles.merged.1.largest', by_tiles_merged_1_largest, 6)
show('by_tiles.merged.1.sum', by_tiles_merged_1_sum, 1.4244)
show('by_tiles.merged.2.largest', by_tiles_merged_2_largest, 6)
show('by_tiles.merged.2.sum', by_tiles_merged_2_sum, 1.5781)

# ---- 4. Attention by tiles of keys

causal = np.arange(7) <= np.arange(2)[:, None] + 5

def compare(k):
    scores = queries @ keys[k].T
    return scores, np.where(causal[:, k], scores / np.sqrt(8), -np.inf)

def meet(k, before):
    largest_before, sum_before, partial_before = before
    scores, masked = compare(k)
    largest = np.maximum(masked.max(axis=1), largest_before)
    correction = np.exp(largest_before - largest)
    exponentials = np.exp(masked - largest[:, None])
    total = sum_before * correction + exponentials.sum(axis=1)
    partial = partial_before * correction[:, None] + exponentials @ values[k]
    return scores, masked, largest, correction, exponentials, total, partial

(tile_0_scores, tile_0_masked, tile_0_largest, tile_0_correction, tile_0_exponentials,
 tile_0_sum, tile_0_partial
) = meet(slice(0, 3), (start_largest, start_sum, start_partial))
(tile_1_scores, tile_1_masked, tile_1_largest, tile_1_correction, tile_1_exponentials,
 tile_1_sum, tile_1_partial
) = meet(slice(3, 6), (tile_0_largest, tile_0_sum, tile_0_partial))
(tile_2_scores, tile_2_masked, tile_2_largest, tile_2_correction, tile_2_exponentials,
 tile_2_sum, tile_2_partial
) = meet(slice(6, 7), (tile_1_largest, tile_1_sum, tile_1_partial))

show('causal', causal, [[True, True, True, True, True, True, False], [True, True, True, True, True, True, True]])
show('tile.0.largest', tile_0_largest, [-1.6030, 0.7601])
show('tile.0.correction', tile_0_correction, [0, 0])
show('tile.0.sum', tile_0_sum, [1.6574, 1.3565])
show('tile.1.largest', tile_1_largest, [0.5614, 0.7601])
show('tile.1.correction', tile_1_correction, [0.1148, 1.0000])
show('tile.1.sum', tile_1_sum, [2.2721, 2.6743])
show('tile.2.masked', tile_2_masked, [[-np.inf], [2.0020]])
show('tile.2.largest', tile_2_largest, [0.5614, 2.0020])
show('tile.2.correction', tile_2_correction, [1.0000, 0.2888])
show('tile.2.sum', tile_2_sum, [2.2721, 1.7724])

# ---- 4. Attention by tiles of keys

context = tile_2_partial / tile_2_sum[:, None]

whole_scores, whole_masked = compare(slice(0, 7))
whole_scaled = whole_scores / np.sqrt(8)
whole_weights = np.exp(whole_masked - whole_masked.max(axis=1, keepdims=True))
whole_weights = whole_weights / whole_weights.sum(axis=1, keepdims=True)
whole_context = whole_weights @ values

show('context', context, [
    [-0.5150, 0.0746, -0.2029, 0.1202, -0.2140, 0.7941, 0.7343, 0.2235],
    [-0.1224, -0.0663, -0.2704, -0.0141, 0.1158, 0.0804, 0.2411, -0.1162],
])

# ---- 5. The way back from m and l alone

back_delta = (arriving * context).sum(axis=1)

def send_back(k, grad_queries_before):
    scores, masked = compare(k)
    weights = np.exp(masked - tile_2_largest[:, None]) / tile_2_sum[:, None]
    grad_values = weights.T @ arriving
    grad_weights = arriving @ values[k].T
    grad_scaled = weights * (grad_weights - back_delta[:, None])
    grad_keys = grad_scaled.T @ queries / np.sqrt(8)
    grad_queries = grad_queries_before + grad_scaled @ keys[k] / np.sqrt(8)
    return (scores, masked, weights, grad_values, grad_weights, grad_scaled, grad_keys,
            grad_queries)

(back_tile_0_scores, back_tile_0_masked, back_tile_0_weights, back_tile_0_grad_values,
 back_tile_0_grad_weights, back_tile_0_grad_scaled, back_tile_0_grad_keys,
 back_tile_0_grad_queries
) = send_back(slice(0, 3), back_start_grad_queries)
(back_tile_1_scores, back_tile_1_masked, back_tile_1_weights, back_tile_1_grad_values,
 back_tile_1_grad_weights, back_tile_1_grad_scaled, back_tile_1_grad_keys,
 back_tile_1_grad_queries
) = send_back(slice(3, 6), back_tile_0_grad_queries)
(back_tile_2_scores, back_tile_2_masked, back_tile_2_weights, back_tile_2_grad_values,
 back_tile_2_grad_weights, back_tile_2_grad_scaled, back_tile_2_grad_keys,
 back_tile_2_grad_queries
) = send_back(slice(6, 7), back_tile_1_grad_queries)
back_grad_keys = np.vstack(
    [back_tile_0_grad_keys, back_tile_1_grad_keys, back_tile_2_grad_keys])
back_grad_values = np.vstack(
    [back_tile_0_grad_values, back_tile_1_grad_values, back_tile_2_grad_values])

show('back.delta', back_delta, [1.9217, 0.2252])
show('back.tile.2.weights', back_tile_2_weights, [[0.0000], [0.5642]])
show('back.tile.2.grad_queries', back_tile_2_grad_queries, [
    [-0.5123, 0.1813, 0.6679, 0.3200, 0.1042, -0.3367, -0.4973, -0.1635],
    [-0.0292, -0.0208, 0.0143, -0.0070, 0.0200, -0.0395, 0.0070, -0.0056],
])

# ---- The library's kernel

kernel_tiles = np.ceil(kernel_n / kernel_rows) * np.ceil(kernel_n / kernel_columns)
i, j = np.tril_indices(kernel_n)  # query i can attend to key j
kernel_met = len(set(zip(i // kernel_rows, j // kernel_columns)))
kernel_skipped = kernel_tiles - kernel_met

show('kernel.tiles', kernel_tiles, 15)
show('kernel.met', kernel_met, 9)
show('kernel.skipped', kernel_skipped, 6)

# ---- What goes wrong

uncorrected = [row[0:2] - row[:2].max(), row[2:4] - row[:4].max(), row[4:6] - row.max()]
wrong_uncorrected_exponentials = np.exp(np.concatenate(uncorrected))
wrong_uncorrected_weights = (
    wrong_uncorrected_exponentials / wrong_uncorrected_exponentials.sum())

alone = [tile - tile.max() for tile in np.split(row, 3)]
wrong_alone_exponentials = np.exp(np.concatenate(alone))
wrong_alone_weights = wrong_alone_exponentials / wrong_alone_exponentials.sum()

wrong_apart_weights = np.concatenate(
    [np.exp(tile) / np.exp(tile).sum() for tile in alone])
wrong_apart_sum = wrong_apart_weights.sum()

show('wrong.uncorrected.weights', wrong_uncorrected_weights, [0.0082, 0.4501, 0.0224, 0.4501, 0.0082, 0.0609])
show('wrong.alone.weights', wrong_alone_weights, [0.0057, 0.3122, 0.0155, 0.3122, 0.0422, 0.3122])
show('wrong.apart.weights', wrong_apart_weights, [0.0180, 0.9820, 0.0474, 0.9526, 0.1192, 0.8808])
show('wrong.apart.sum', wrong_apart_sum, 3)

# ---- What goes wrong

wrong_masked_row = np.where(np.arange(6) >= 2, row, -np.inf)
hidden, shown = wrong_masked_row[0:2], wrong_masked_row[2:4]
wrong_masked_largest = hidden.max()
with np.errstate(invalid="ignore"):
    wrong_masked_sum = np.exp(hidden - hidden.max()).sum()
wrong_masked_guarded = 0.0 if hidden.max() == -np.inf else wrong_masked_sum
correction, added = np.exp(hidden.max() - shown.max()), np.exp(shown - shown.max()).sum()
wrong_masked_sum_after = wrong_masked_sum * correction + added
wrong_masked_guarded_after = wrong_masked_guarded * correction + added

show('wrong.masked.sum', wrong_masked_sum, np.nan)
show('wrong.masked.guarded', wrong_masked_guarded, 0)
show('wrong.masked.sum_after', wrong_masked_sum_after, np.nan)
show('wrong.masked.guarded_after', wrong_masked_guarded_after, 1.0498)

print("all as on the page")
