//! Attention of one sequence, at once, and in several calls of the function that the variable CALLS names, by loops, with a mistake where the variable MISTAKE names one.
use serde_json::Value;
use std::cell::RefCell;
use vectors::{Array, Arrays};

type Rows = Vec<Vec<f64>>;

fn has(name: &str) -> bool {
    std::env::var("MISTAKE").map_or(false, |mistake| mistake == name)
}

fn softmax(row: &[f64], sink: Option<f64>) -> Vec<f64> {
    let largest = row.iter().copied().chain(sink).fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = row.iter().copied().chain(sink).map(|score| (score - largest).exp()).sum();
    row.iter().map(|score| if largest == f64::NEG_INFINITY { 0.0 } else { (score - largest).exp() / sum }).collect()
}

fn transpose(rows: &Rows) -> Rows {
    (0..rows[0].len()).map(|j| rows.iter().map(|row| row[j]).collect()).collect()
}

fn allows(i: usize, j: usize, n: usize, m: usize, parameters: &Value, mask: Option<&Array>) -> bool {
    let limit = |name: &str, otherwise: f64| parameters[name].as_f64().unwrap_or(otherwise);
    let first = if parameters["causal"] == "bottom-right" { m as f64 - n as f64 } else { 0.0 };
    let (row, key) = (i as f64, j as f64);
    let place = row + if has("window_top_left") { 0.0 } else { first };
    let mut diagonal = row + if has("causal_top_left") { 0.0 } else { first };
    diagonal += if has("causal_next") { 1.0 } else if has("causal_strict") { -1.0 } else { 0.0 };
    let is_early = parameters["causal"].is_null() || key <= diagonal;
    let left = limit("left_window", f64::INFINITY) + if has("window_off_by_one") { 1.0 } else { 0.0 };
    let mut is_near = has("window_missing") || (key >= place - left && key <= place + limit("right_window", f64::INFINITY));
    let is_kept = key < limit("kept", 0.0);
    if has("sink_tokens_early") {
        return (is_early && is_near) || is_kept;
    }
    is_near |= is_kept && !has("sink_tokens_missing");
    is_near && is_early && mask.map_or(true, |mask| mask.values[i * m + j] != 0.0)
}

fn attention(function: &str, parameters: &Value, inputs: &Arrays, _weights: &Arrays) -> Option<Arrays> {
    let is_beyond = inputs.contains_key("past_keys") || inputs.contains_key("lengths") || !parameters["score"].is_null();
    if function != "attention" || is_beyond || inputs["queries"].shape.len() != 2 {
        return None;
    }
    let (queries, keys, values) = (&inputs["queries"], &inputs["keys"], &inputs["values"]);
    let (n, d, m, v) = (queries.shape[0], queries.shape[1], values.shape[0], values.shape[1]);
    let root = (d as f64).sqrt();
    let scale = match std::env::var("MISTAKE").as_deref() {
        Ok("no_scale") => 1.0,
        Ok("scale_d_k") => 1.0 / d as f64,
        Ok("scale_inverse") => root,
        Ok("scale_default") => 1.0 / root,
        _ => parameters["scale"].as_f64().unwrap_or(1.0 / root),
    };
    let mask = inputs.get("mask");
    let is_masked = mask.is_some() || !parameters["causal"].is_null() || !parameters["left_window"].is_null();
    let can = |i: usize, j: usize| {
        let (i, j) = if has("mask_transposed") && n == m { (j, i) } else { (i, j) };
        allows(i, j, n, m, parameters, mask) != (has("mask_inverted") && is_masked)
    };
    let fill = if has("mask_zero") { 0.0 } else if has("mask_finite") { -100.0 } else { f64::NEG_INFINITY };
    let score = |i: usize, j: usize| {
        let at = |k: usize| if has("keys_reshaped") { k * m + j } else { j * d + k };
        let mut score = scale * (0..d).map(|k| queries.values[i * d + k] * keys.values[at(k)]).sum::<f64>();
        if let Some(cap) = parameters["softcap"].as_f64() {
            score = cap * (score / cap).tanh();
        }
        score += inputs.get("bias").map_or(0.0, |bias| bias.values[i * m + j]);
        if has("mask_added") {
            return score + if is_masked && can(i, j) { 1.0 } else { 0.0 };
        }
        if can(i, j) || has("mask_missing") || has("mask_after_softmax") { score } else { fill }
    };
    let scores: Rows = (0..n).map(|i| (0..m).map(|j| score(i, j)).collect()).collect();
    let sink = inputs.get("sinks").filter(|_| !has("sink_missing")).map(|sinks| sinks.values[0]);
    let usual = || -> Rows { scores.iter().map(|row| softmax(row, sink)).collect() };
    let each = |rows: &Rows, f: &dyn Fn(f64) -> f64| -> Rows { rows.iter().map(|row| row.iter().map(|&x| f(x)).collect()).collect() };
    let weights = match std::env::var("MISTAKE").as_deref() {
        Ok("softmax_axis") => transpose(&transpose(&scores).iter().map(|row| softmax(row, None)).collect()),
        Ok("softmax_all") => softmax(&scores.concat(), None).chunks(m).map(|row| row.to_vec()).collect(),
        Ok("softmax_missing") => scores.clone(),
        Ok("softmax_unnormalized") => each(&scores, &f64::exp),
        Ok("softmax_sigmoid") => each(&scores, &|x| 1.0 / (1.0 + (-x).exp())),
        Ok("softmax_over_one") => each(&scores, &|_| 1.0),
        Ok("softmax_twice") => usual().iter().map(|row| softmax(row, None)).collect(),
        Ok("softmax_log") => each(&usual(), &f64::ln),
        Ok("weights_transposed") if n == m => transpose(&usual()),
        Ok("mask_after_softmax") => {
            let masked = |(i, row): (usize, &Vec<f64>)| row.iter().enumerate().map(|(j, &w)| if can(i, j) { w } else { 0.0 }).collect();
            usual().iter().enumerate().map(masked).collect()
        }
        _ => usual(),
    };
    let mix = |row: &Vec<f64>, k: usize| row.iter().enumerate().map(|(j, weight)| weight * values.values[j * v + k]).sum::<f64>();
    let output: Vec<f64> = weights.iter().flat_map(|row| (0..v).map(|k| mix(row, k)).collect::<Vec<_>>()).collect();
    let shape = if has("more_axes") { vec![1, n, v] } else { vec![n, v] };
    let values = if has("not_a_number") { vec![f64::NAN; n * v] } else { output };
    Some(Arrays::from([("output".to_string(), Array { shape, values })]))
}

#[derive(Clone)]
struct Cache {
    keys: Rows,
    values: Rows,
    calls: usize,
}

fn rows(array: &Array) -> Rows {
    array.values.chunks(array.shape[1]).map(|row| row.to_vec()).collect()
}

/// last: the state of the last call
fn attention_calls(last: &RefCell<Option<Cache>>, function: &str, parameters: &Value, inputs: &Arrays, state: Option<Cache>) -> Option<(Arrays, Cache)> {
    if function != "attention_calls" {
        return None;
    }
    let left_over = last.borrow().clone().filter(|_| has("last_request")).map(|cache| Cache { calls: 0, ..cache });
    let before = state.or(left_over).unwrap_or(Cache { keys: vec![], values: vec![], calls: 0 });
    let (queries, keys, values) = (rows(&inputs["queries"]), rows(&inputs["keys"]), rows(&inputs["values"]));
    let (mut all_keys, mut all_values) = ([before.keys, keys.clone()].concat(), [before.values, values.clone()].concat());
    let (n, m, is_later) = (queries.len(), all_keys.len(), before.calls > 0);
    let (past, window) = (m - n, parameters["left_window"].as_f64().unwrap_or(f64::INFINITY));
    let wider = if !is_later { 0.0 } else if has("window_one_long") { 1.0 } else if has("window_one_short") { -1.0 } else { 0.0 };
    let can = |i: usize, j: usize| {
        let (mut is_early, mut is_near) = (j <= i + past, j as f64 >= (i + past) as f64 - window - wider);
        if has("mask_skipped_with_cache") || (has("chunk_unmasked") && is_later) {
            is_early = true;
        }
        if has("mask_at_first_key") || (has("chunk_masked_top_left") && n > 1) {
            is_early &= j <= i;
        }
        if has("cache_ignored") || (has("chunk_sees_itself_alone") && n > 1) {
            is_early &= j >= past;
        }
        if has("ring_written_first") && j < past {
            is_near &= j as f64 > m as f64 - window - 2.0;
        }
        is_early && (is_near || (j as f64) < parameters["kept"].as_f64().unwrap_or(0.0))
    };
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    let mut output = vec![];
    for (i, query) in queries.iter().enumerate() {
        let score = |(j, key): (usize, &Vec<f64>)| if can(i, j) { dot(query, key) / (key.len() as f64).sqrt() } else { f64::NEG_INFINITY };
        let weights = softmax(&all_keys.iter().enumerate().map(score).collect::<Vec<_>>(), None);
        output.extend(transpose(&all_values).iter().map(|column| dot(&weights, column)));
    }
    if has("cache_overwritten") {
        (all_keys, all_values) = (keys.clone(), values.clone());
    }
    if has("token_stored_twice") && !is_later {
        all_keys.push(keys[n - 1].clone());
        all_values.push(values[n - 1].clone());
    }
    let cache = Cache { keys: all_keys, values: all_values, calls: before.calls + 1 };
    *last.borrow_mut() = Some(cache.clone());
    let result = Array { shape: vec![n, values[0].len()], values: output };
    Some((Arrays::from([("output".to_string(), result)]), cache))
}

#[derive(Clone)]
struct Column {
    is_token: bool,
    key: Vec<f64>,
    value: Vec<f64>,
}

fn padded_attention_calls(function: &str, inputs: &Arrays, state: Option<Vec<Vec<Column>>>) -> Option<(Arrays, Vec<Vec<Column>>)> {
    if function != "padded_attention_calls" {
        return None;
    }
    let row = |name: &str, i: usize| {
        let width = *inputs[name].shape.last().unwrap();
        inputs[name].values[i * width..(i + 1) * width].to_vec()
    };
    let plus = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x + y).collect::<Vec<f64>>();
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
    let shape = inputs["value"].shape.clone();
    let (b, n, v, is_later) = (shape[0], shape[1], shape[2], state.is_some());
    let mut rows = state.unwrap_or(vec![vec![]; b]);
    let mut output = vec![];
    for r in 0..b {
        let past = rows[r].len();
        for i in 0..n {
            let at = r * n + i;
            let is_token = inputs["attention_mask"].values[at] != 0.0;
            rows[r].push(Column { is_token, key: vec![], value: row("value", at) });
            let counted = &rows[if has("positions_of_first_row") { 0 } else { r }][..past + i + 1];
            let mut place = counted.iter().filter(|column| column.is_token).count().saturating_sub(1);
            if has("padding_counted") || (has("steps_at_padded_length") && is_later) {
                place = past + i;
            }
            let position = row("position_table", place);
            rows[r][past + i].key = plus(&row("key", at), &position);
            let query = plus(&row("query", at), &position);
            let score = |j: usize| {
                let can = rows[if has("mask_of_first_row") { 0 } else { r }][j].is_token;
                let can = can || has("padding_not_masked") || (has("padding_seen_later") && j < past);
                if can && is_token { dot(&query, &rows[r][j].key) / (query.len() as f64).sqrt() } else { f64::NEG_INFINITY }
            };
            let weights = softmax(&(0..past + i + 1).map(score).collect::<Vec<_>>(), None);
            output.extend((0..v).map(|k| weights.iter().zip(&rows[r]).map(|(weight, column)| weight * column.value[k]).sum::<f64>()));
        }
    }
    Some((Arrays::from([("output".to_string(), Array { shape, values: output })]), rows))
}

fn main() {
    let folder = std::env::args().nth(1).expect("a folder of vectors");
    let last = RefCell::new(None);
    let is_right = match std::env::var("CALLS").as_deref() {
        Ok("attention_calls") => {
            vectors::check_calls(&folder, "float64", |function, parameters, inputs, _, state| attention_calls(&last, function, parameters, inputs, state))
        }
        Ok(_) => vectors::check_calls(&folder, "float64", |function, _, inputs, _, state| padded_attention_calls(function, inputs, state)),
        Err(_) => vectors::check(&folder, "float64", attention),
    };
    std::process::exit(if is_right { 0 } else { 1 });
}
