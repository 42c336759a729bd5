//! A kernel in tiles, checked: cargo run --release ../../../kernels
use serde_json::Value;
use vectors::{Array, Arrays};

const TILE: usize = 64;

fn kernel(function: &str, parameters: &Value, inputs: &Arrays, _: &Arrays) -> Option<Arrays> {
    let (causal, count) = (parameters["causal"].is_string(), parameters.as_object()?.len());
    if function != "attention_kernel" || parameters["layout"] != "bhnd" || inputs.len() != 3 || count > 1 + causal as usize { return None; }
    let (q, k, v) = (&inputs["queries"], &inputs["keys"], &inputs["values"]); // (b, h, n, d), (b, g, m, d), (b, g, m, e)
    let (&[b, h, n, d], &[_, g, m, e]) = (&q.shape[..], &v.shape[..]) else { return None };
    let mut output = vec![];
    for row in 0..b * h * n {
        let (head, end) = (row / n / h * g + row / n % h / (h / g), if causal { (row % n + m + 1).saturating_sub(n) } else { m });
        let (mut top, mut total, mut sums) = (-1e30f64, 0.0, vec![0.0; e]);
        for begin in (0..end).step_by(TILE) {
            let dot = |j: usize| (0..d).map(|c| q.values[row * d + c] * k.values[(head * m + j) * d + c]).sum::<f64>() / (d as f64).sqrt();
            let scores: Vec<f64> = (begin..end.min(begin + TILE)).map(dot).collect();
            let next = scores.iter().copied().fold(top, f64::max);
            let factor = (top - next).exp();
            total *= factor;
            sums.iter_mut().for_each(|sum| *sum *= factor);
            for (j, score) in scores.iter().enumerate() {
                let weight = (score - next).exp();
                total += weight;
                for c in 0..e { sums[c] += weight * v.values[(head * m + begin + j) * e + c]; }
            }
            top = next;
        }
        output.extend(sums.iter().map(|sum| if total > 0.0 { sum / total } else { 0.0 }));
    }
    Some(Arrays::from([("output".to_string(), Array { shape: vec![b, h, n, e], values: output })]))
}
fn main() {
    let folder = std::env::args().nth(1).expect("a folder of vectors");
    std::process::exit(if vectors::check(&folder, "float32", kernel) { 0 } else { 1 });
}
