// A kernel in tiles, checked: node check.mjs ../kernels examples/kernel.mjs float32
const tile = 64;

export function attention_kernel({ inputs: { queries: q, keys: k, values: v, ...others }, parameters: { layout, causal, ...options } }) {
    if (layout !== "bhnd" || Object.keys({ ...others, ...options }).length) return null; // it does not compute such a case
    const [b, h, n, d] = q.shape, [, g, m, e] = v.shape, output = new Float32Array(b * h * n * e); // (b, h, n, d), (b, g, m, d), (b, g, m, e)
    for (let row = 0; row < b * h * n; row++) {
        const head = Math.floor(row / n / h) * g + Math.floor((Math.floor(row / n) % h) / (h / g)), end = causal ? (row % n) + m - n + 1 : m;
        const sums = new Float32Array(e);
        let top = -1e30, total = 0;
        for (let begin = 0; begin < end; begin += tile) {
            const scores = new Float32Array(Math.min(tile, end - begin));
            for (let j = 0; j < scores.length; j++) {
                for (let c = 0; c < d; c++) scores[j] += q.values[row * d + c] * k.values[(head * m + begin + j) * d + c];
                scores[j] /= Math.sqrt(d);
            }
            const next = Math.max(top, ...scores), factor = Math.exp(top - next);
            total *= factor;
            for (let c = 0; c < e; c++) sums[c] *= factor;
            for (let j = 0; j < scores.length; j++) {
                const weight = Math.exp(scores[j] - next);
                total += weight;
                for (let c = 0; c < e; c++) sums[c] += weight * v.values[(head * m + begin + j) * e + c];
            }
            top = next;
        }
        for (let c = 0; c < e; c++) output[row * e + c] = total ? sums[c] / total : 0;
    }
    return { output: { shape: [b, h, n, e], values: output } };
}
