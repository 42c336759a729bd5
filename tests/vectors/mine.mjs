// Attention of one sequence, at once, and in several calls of the function that the variable CALLS names, by loops, with a mistake where the variable MISTAKE names one.
const mistake = globalThis.process?.env.MISTAKE ?? "";
const calls = globalThis.process?.env.CALLS;
const has = (...names) => names.includes(mistake);

function softmax(row, sink) {
    const all = sink === undefined ? row : [...row, sink], largest = Math.max(...all);
    const sum = all.reduce((total, score) => total + Math.exp(score - largest), 0);
    return row.map((score) => (largest === -Infinity ? 0 : Math.exp(score - largest) / sum));
}

const transpose = (rows) => rows[0].map((_, j) => rows.map((row) => row[j]));

function allows(i, j, n, m, parameters, mask) {
    const { causal, left_window: left = Infinity, right_window: right = Infinity, kept = 0 } = parameters;
    const first = causal === "bottom-right" ? m - n : 0, place = i + (has("window_top_left") ? 0 : first);
    const diagonal = i + (has("causal_top_left") ? 0 : first) + (has("causal_next") ? 1 : 0) - (has("causal_strict") ? 1 : 0);
    const isEarly = !causal || j <= diagonal;
    let isNear = has("window_missing") || (j >= place - left - (has("window_off_by_one") ? 1 : 0) && j <= place + right);
    if (has("sink_tokens_early")) return (isEarly && isNear) || j < kept;
    isNear ||= !has("sink_tokens_missing") && j < kept;
    return isNear && isEarly && (!mask || mask.values[i * m + j] !== 0);
}

export function attention({ inputs, parameters }) {
    const { queries, keys, values, mask, bias, sinks, past_keys, lengths } = inputs;
    if (calls || past_keys || lengths || parameters.score || queries.shape.length !== 2) return null;
    const [n, d] = queries.shape, [m, v] = values.shape;
    const scale = has("no_scale") ? 1 : has("scale_d_k") ? 1 / d : has("scale_inverse") ? Math.sqrt(d) :
        has("scale_default") ? 1 / Math.sqrt(d) : parameters.scale ?? 1 / Math.sqrt(d);
    const isMasked = mask || parameters.causal || parameters.left_window !== undefined;
    const can = (i, j) => allows(...(has("mask_transposed") && n === m ? [j, i] : [i, j]), n, m, parameters, mask) !== Boolean(has("mask_inverted") && isMasked);
    const scores = Array.from({ length: n }, (_, i) => Array.from({ length: m }, (_, j) => {
        let score = 0;
        for (let k = 0; k < d; ++k) score += queries.values[i * d + k] * keys.values[has("keys_reshaped") ? k * m + j : j * d + k];
        score *= scale;
        if (parameters.softcap) score = parameters.softcap * Math.tanh(score / parameters.softcap);
        if (bias) score += bias.values[i * m + j];
        if (has("mask_added")) return score + (isMasked && can(i, j) ? 1 : 0);
        const fill = has("mask_zero") ? 0 : has("mask_finite") ? -100 : -Infinity;
        return can(i, j) || has("mask_missing", "mask_after_softmax") ? score : fill;
    }));
    const usual = () => scores.map((row) => softmax(row, has("sink_missing") ? undefined : sinks?.values[0]));
    const others = {
        softmax_axis: () => transpose(transpose(scores).map((row) => softmax(row))),
        softmax_all: () => { const all = softmax(scores.flat()); return scores.map((row, i) => all.slice(i * m, (i + 1) * m)); },
        softmax_missing: () => scores,
        softmax_unnormalized: () => scores.map((row) => row.map(Math.exp)),
        softmax_sigmoid: () => scores.map((row) => row.map((score) => 1 / (1 + Math.exp(-score)))),
        softmax_over_one: () => scores.map((row) => row.map(() => 1)),
        softmax_twice: () => usual().map((row) => softmax(row)),
        softmax_log: () => usual().map((row) => row.map(Math.log)),
        mask_after_softmax: () => usual().map((row, i) => row.map((weight, j) => (can(i, j) ? weight : 0))),
        weights_transposed: () => (n === m ? transpose(usual()) : usual()),
    };
    const weights = (others[mistake] ?? usual)();
    const output = weights.flatMap((row) => Array.from({ length: v }, (_, k) => row.reduce((sum, weight, j) => sum + weight * values.values[j * v + k], 0)));
    if (has("not_a_number")) output.fill(NaN);
    return { output: { shape: has("more_axes") ? [1, n, v] : [n, v], values: output } };
}

let last = null; // the state of the last call

export function attention_calls({ inputs: { queries, keys, values }, parameters, state }) {
    if (calls !== "attention_calls") return null;
    state ??= has("last_request") && last ? { ...last, calls: 0 } : { keys: [], values: [], calls: 0 };
    const d = keys.shape[1], v = values.shape[1], rows = ({ shape: [n, size], values: all }) => Array.from({ length: n }, (_, i) => all.slice(i * size, (i + 1) * size));
    const own = { keys: rows(keys), values: rows(values) }, isLater = state.calls > 0;
    let all = { keys: [...state.keys, ...own.keys], values: [...state.values, ...own.values] };
    const n = own.keys.length, m = all.keys.length, past = m - n, { left_window: window = Infinity, kept = 0 } = parameters;
    const left = window + (isLater ? has("window_one_long") - has("window_one_short") : 0);
    const can = (i, j) => {
        let isEarly = j <= i + past, isNear = j >= i + past - left;
        if (has("mask_skipped_with_cache") || (has("chunk_unmasked") && isLater)) isEarly = true;
        if (has("mask_at_first_key") || (has("chunk_masked_top_left") && n > 1)) isEarly &&= j <= i;
        if (has("cache_ignored") || (has("chunk_sees_itself_alone") && n > 1)) isEarly &&= j >= past;
        if (has("ring_written_first") && j < past) isNear &&= j > m - window - 2;
        return isEarly && (isNear || j < kept);
    };
    const dot = (a, b) => a.reduce((sum, x, k) => sum + x * b[k], 0);
    const output = rows(queries).flatMap((query, i) => {
        const weights = softmax(all.keys.map((key, j) => (can(i, j) ? dot(query, key) / Math.sqrt(d) : -Infinity)));
        return Array.from({ length: v }, (_, k) => dot(weights, all.values.map((value) => value[k])));
    });
    if (has("cache_overwritten")) all = own;
    if (has("token_stored_twice") && !isLater) all = { keys: [...all.keys, own.keys.at(-1)], values: [...all.values, own.values.at(-1)] };
    last = { ...all, calls: state.calls + 1 };
    return { output: { shape: [n, v], values: output }, state: last };
}

export function padded_attention_calls({ inputs: { query, key, value, attention_mask: mask, position_table: table }, state }) {
    if (calls !== "padded_attention_calls") return null;
    const [b, n, d] = query.shape, v = value.shape[2], before = state ?? [];
    const row = ({ values }, i, width) => values.slice(i * width, (i + 1) * width), plus = (a, c) => a.map((x, k) => x + c[k]);
    const dot = (a, c) => a.reduce((sum, x, k) => sum + x * c[k], 0), after = [], output = [];
    for (let r = 0; r < b; ++r) {
        const kept = [...(before[r] ?? [])], past = kept.length;
        after.push(kept);
        for (let i = 0; i < n; ++i) {
            const at = r * n + i, isToken = mask.values[at] !== 0;
            kept.push({ isToken });
            let place = after[has("positions_of_first_row") ? 0 : r].slice(0, past + i + 1).filter((column) => column.isToken).length - 1;
            if (has("padding_counted") || (has("steps_at_padded_length") && state)) place = past + i;
            const position = row(table, Math.max(place, 0), d), own = plus(row(query, at, d), position);
            Object.assign(kept[past + i], { key: plus(row(key, at, d), position), value: row(value, at, v) });
            const can = (j) => isToken && (after[has("mask_of_first_row") ? 0 : r][j].isToken || has("padding_not_masked") || (has("padding_seen_later") && j < past));
            const weights = softmax(kept.map((column, j) => (can(j) ? dot(own, column.key) / Math.sqrt(d) : -Infinity)));
            for (let k = 0; k < v; ++k) output.push(dot(weights, kept.map((column) => column.value[k])));
        }
    }
    return { output: { shape: [b, n, v], values: output }, state: after };
}
