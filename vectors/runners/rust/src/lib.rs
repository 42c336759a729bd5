//! Checks a function by vectors/cases: vectors::check("cases", "float32", mine) prints a line for each case that fails.
use serde_json::Value;
use std::{collections::BTreeMap, fs};
pub struct Array { pub shape: Vec<usize>, pub values: Vec<f64> } // booleans are 0 and 1
pub type Arrays = BTreeMap<String, Array>;
fn numbers(list: &Value) -> Vec<f64> { // also of "NaN", "Infinity" and "-Infinity"
    list.as_array().unwrap().iter().map(|one| one.as_f64().or_else(|| one.as_str()?.parse().ok()).unwrap()).collect()
}
fn array(entry: &Value) -> Array {
    let shape: Vec<usize> = numbers(&entry["shape"]).iter().map(|&size| size as usize).collect();
    let by_place = |m: u64, o: u64| (0..shape.iter().product::<usize>() as u64).map(|i| (((m * i + o) % 251) as f64 - 125.0) / 64.0).collect();
    let values = entry["multiplier"].as_u64().map_or_else(|| numbers(&entry["values"]), |m| by_place(m, entry["offset"].as_u64().unwrap()));
    Array { shape, values }
}
fn arrays(entries: &Value) -> Arrays { entries.as_object().into_iter().flatten().map(|(name, entry)| (name.clone(), array(entry))).collect() }
fn is_near(mine: &[f64], right: &[f64], tolerance: f64) -> bool {
    mine.len() == right.len() && mine.iter().zip(right).all(|(&a, &b)| a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance)
}
fn is_of(one: &Value, mine: &Arrays, other: &Value, kind: &str) -> bool { // null: what is right
    one["outputs"].as_object().unwrap().iter().all(|(name, right)| {
        let (tolerance, values) = (right["tolerance"][kind].as_f64().unwrap(), &mine[name].values);
        if other[name].is_null() { return is_near(values, &numbers(&right["values"]), tolerance); }
        let wrong = numbers(&other[name]);
        let largest = wrong.iter().filter(|one| one.is_finite()).fold(1.0, |most: f64, one| most.max(one.abs()));
        is_near(values, &wrong, tolerance.max(1e-6) * largest)
    })
}
fn named(one: &Value, mine: &Arrays, which: &str, kind: &str) -> Vec<String> {
    one[which].as_object().into_iter().flatten().filter(|(_, other)| is_of(one, mine, other, kind)).map(|(name, _)| name.clone()).collect()
}
/// mine(function, parameters, inputs, weights) returns the outputs by name, or None where it does not compute such cases.
pub fn check(folder: &str, kind: &str, mine: impl Fn(&str, &Value, &Arrays, &Arrays) -> Option<Arrays>) -> bool {
    let (mut failed, mut count) = (0, 0);
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for file in paths.iter().map(|path| serde_json::from_str::<Value>(&fs::read_to_string(path).unwrap()).unwrap()) {
        let groups = file["groups"].as_array().unwrap().iter();
        for (of, one) in groups.flat_map(|of| of["cases"].as_array().unwrap().iter().map(move |one| (&of["parameters"], one))) {
            let answer = mine(file["function"].as_str().unwrap(), of, &arrays(&one["inputs"]), &arrays(&one["weights"]));
            let mut found = match answer { Some(found) => found, None => continue };
            for array in found.values_mut().filter(|_| one["rows"].is_array()) {
                let width = *array.shape.last().unwrap();
                array.values = numbers(&one["rows"]).iter().flat_map(|&row| array.values[row as usize * width..][..width].to_vec()).collect();
            }
            let is_right = is_of(one, &found, &Value::Null, kind) || !named(one, &found, "accepted", kind).is_empty();
            (count, failed) = (count + 1, failed + !is_right as usize);
            if is_right { continue; }
            let names = named(one, &found, "wrong", kind).join(" or ");
            let why = if names.is_empty() { "no mistake that this case has gives these numbers" } else { "your numbers are those of " };
            println!("failed {}: {why}{names}", one["id"].as_str().unwrap());
        }
    }
    println!("{} of {count} cases passed", count - failed);
    failed == 0 && count > 0
}
