//! Checks a function by vectors/cases: vectors::check("cases", "float32", mine) prints a line for each case that fails.
//! vectors::check_calls("cases", "float32", mine) does the same with the cases of several calls.
use serde_json::Value;
use std::{collections::{BTreeMap, BTreeSet}, fs, path::Path};
mod kernels;
pub struct Array { pub shape: Vec<usize>, pub values: Vec<f64> } // booleans are 0 and 1
pub type Arrays = BTreeMap<String, Array>;
fn numbers(list: &Value) -> Vec<f64> { // also of "NaN", "Infinity" and "-Infinity"
    list.as_array().unwrap().iter().map(|one| one.as_f64().or_else(|| one.as_str()?.parse().ok()).unwrap()).collect()
}
fn array(entry: &Value) -> Array {
    let shape: Vec<usize> = numbers(&entry["shape"]).iter().map(|&size| size as usize).collect();
    if let Some(seed) = entry["rule"].as_u64() {
        let values = (0..shape.iter().product::<usize>()).map(|i| (f64::from(kernels::by_rule(seed as u32, i as u32) % 65) - 32.0) / 16.0).collect();
        return Array { shape, values };
    }
    let by_place = |m: u64, o: u64| (0..shape.iter().product::<usize>() as u64).map(|i| (((m * i + o) % 251) as f64 - 125.0) / 64.0).collect();
    let values = entry["multiplier"].as_u64().map_or_else(|| numbers(&entry["values"]), |m| by_place(m, entry["offset"].as_u64().unwrap()));
    Array { shape, values }
}
fn arrays(entries: &Value) -> Arrays { entries.as_object().into_iter().flatten().map(|(name, entry)| (name.clone(), array(entry))).collect() }
fn is_near(mine: &[f64], right: &[f64], tolerance: f64) -> bool {
    mine.len() == right.len() && mine.iter().zip(right).all(|(&a, &b)| a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance)
}
const KINDS: [&str; 4] = ["float64", "float32", "float16", "bfloat16"];
fn is_number(one: &Value) -> bool { one.is_number() || matches!(one.as_str(), Some("NaN" | "Infinity" | "-Infinity")) }
fn size_of(entry: &Value) -> Option<usize> { // of an array that is whole
    let sizes = entry["shape"].as_array()?.iter().map(|one| one.as_u64().filter(|&size| size > 0));
    let size = sizes.fold(Some(1usize), |product, one| product?.checked_mul(one? as usize))?;
    let is_whole = match entry["values"].as_array() {
        Some(values) => values.len() == size && values.iter().all(is_number),
        None if entry["rule"].is_u64() => size < 10_000_000 && entry["shape"].as_array()?.len() <= 5,
        None => entry["multiplier"].is_u64() && entry["offset"].is_u64() && size < 10_000_000,
    };
    is_whole.then_some(size)
}
fn expect(holds: bool) -> Option<()> { holds.then_some(()) }
fn call_of(name: &str) -> Option<Option<usize>> { // 2 of calls.2.output; some none where it is of no call; none where it names none
    let Some(rest) = name.strip_prefix("calls.") else { return Some(None) };
    let (number, name) = rest.split_once('.')?;
    let call: usize = number.parse().ok()?;
    (call.to_string() == number && !name.is_empty()).then_some(Some(call))
}
fn requests(one: &Value) -> Option<Vec<usize>> { // how many calls each has
    let Some(list) = one.get("requests") else { return Some(vec![]) };
    let counts: Vec<u64> = list.as_array()?.iter().map(Value::as_u64).collect::<Option<_>>()?;
    expect(!counts.is_empty() && counts.iter().all(|&calls| calls > 0 && calls <= 1000) && counts.iter().sum::<u64>() <= 1000)?;
    Some(counts.iter().map(|&calls| calls as usize).collect())
}
fn expect_calls(one: &Value) -> Option<()> { // each has inputs and outputs, and there is no other
    let count = requests(one)?.iter().sum::<usize>();
    expect(count == 0 || one.get("rows").is_none())?;
    for part in ["inputs", "outputs"] {
        let calls: BTreeSet<Option<usize>> = one[part].as_object()?.keys().map(|name| call_of(name)).collect::<Option<_>>()?;
        expect(calls.iter().flatten().copied().eq(0..count) && (count == 0 || part == "inputs" || !calls.contains(&None)))?;
    }
    Some(())
}
fn expect_case(one: &Value) -> Option<()> { // one that a program of zeros can't pass
    let (inputs, outputs) = (one["inputs"].as_object()?, one["outputs"].as_object()?);
    expect(one["id"].is_string() && !inputs.is_empty() && !outputs.is_empty())?;
    expect_calls(one)?;
    for entry in inputs.values().chain(one["weights"].as_object().into_iter().flat_map(|all| all.values())) { size_of(entry)?; }
    for right in outputs.values() {
        size_of(right)?;
        expect(KINDS.iter().all(|&kind| right["tolerance"][kind].as_f64().is_some_and(|one| one > 0.0)))?;
        if let Some(rows) = one.get("rows") {
            let (rows, shape) = (rows.as_array()?, right["shape"].as_array()?);
            expect(shape.len() == 2 && shape[0] == rows.len() && rows.iter().all(Value::is_u64))?;
        }
    }
    for other in ["accepted", "wrong"].iter().filter_map(|&which| one.get(which)).flat_map(|all| all.as_object().into_iter().flat_map(|all| all.values())) {
        let mut given = other.as_object()?.iter().filter(|(name, _)| *name != "formulas").peekable();
        expect(given.peek().is_some())?;
        for (name, values) in given {
            let list = values.as_array()?;
            expect(list.len() == size_of(outputs.get(name)?)? && list.iter().all(is_number))?;
        }
    }
    Some(())
}
fn read(path: &Path) -> Result<Value, String> { // a file of vectors, whole
    let file: Value = serde_json::from_str(&fs::read_to_string(path).map_err(|error| error.to_string())?).map_err(|error| error.to_string())?;
    let is_kernels = file["schema"] == "vectors_kernels_1";
    let is_one = (is_kernels || file["schema"] == "vectors_schema_1") && file["function"].is_string();
    for group in file["groups"].as_array().filter(|_| is_one).ok_or("it is none of vectors_schema_1")? {
        for one in group["cases"].as_array().ok_or("a group has no cases")? {
            if is_kernels { kernels::expect_kernel(one) } else { expect_case(one) }.ok_or_else(|| format!("{} has not the numbers of its arrays", one["id"]))?;
        }
    }
    Ok(file)
}
fn rows_of(whole: &Array, right: &Value, rows: Option<&Value>) -> Option<Vec<f64>> { // nothing where the result has another shape
    let mut shape: Vec<usize> = numbers(&right["shape"]).iter().map(|&size| size as usize).collect();
    if rows.is_some() { shape[0] = *whole.shape.first()?; }
    expect(whole.shape == shape && whole.values.len() == shape.iter().product::<usize>())?;
    let width = *shape.last().unwrap_or(&1);
    rows.map_or_else(|| Some(whole.values.clone()), |rows| {
        let some = numbers(rows).into_iter().map(|row| whole.values.get(row as usize * width..(row as usize + 1) * width));
        Some(some.collect::<Option<Vec<_>>>()?.concat())
    })
}
type Results = BTreeMap<String, Vec<f64>>;
fn is_of(one: &Value, mine: &Results, other: &Value, kind: &str) -> bool { // null: what is right
    one["outputs"].as_object().unwrap().iter().all(|(name, right)| {
        let (tolerance, values) = (right["tolerance"][kind].as_f64().unwrap(), &mine[name]);
        if other[name].is_null() { return is_near(values, &numbers(&right["values"]), tolerance); }
        let wrong = numbers(&other[name]);
        let largest = wrong.iter().filter(|one| one.is_finite()).fold(1.0, |most: f64, one| most.max(one.abs()));
        is_near(values, &wrong, tolerance.max(1e-6) * largest)
    })
}
fn named(one: &Value, mine: &Results, which: &str, kind: &str) -> Vec<String> {
    one[which].as_object().into_iter().flatten().filter(|(_, other)| is_of(one, mine, other, kind)).map(|(name, _)| name.clone()).collect()
}
fn failure(one: &Value, found: &Arrays, kind: &str) -> Option<String> { // nothing where it is right
    if one["outputs"].as_object().unwrap().values().all(|right| right["places"].is_array()) { return kernels::failure(one, found, kind); }
    let mut mine = Results::new();
    for (name, right) in one["outputs"].as_object().unwrap() {
        match found.get(name).and_then(|whole| rows_of(whole, right, one.get("rows"))) {
            Some(values) => mine.insert(name.clone(), values),
            None => return Some(format!("there is no {name} among the results, or it has another shape than {}", right["shape"])),
        };
    }
    if is_of(one, &mine, &Value::Null, kind) || !named(one, &mine, "accepted", kind).is_empty() { return None; }
    let names = named(one, &mine, "wrong", kind).join(" or ");
    if !names.is_empty() { return Some(format!("your numbers are those of {names}")); }
    Some(format!("{}; no mistake that this case has gives these numbers", furthest(one, &mine, kind)))
}
fn furthest(one: &Value, mine: &Results, kind: &str) -> String { // where the results are furthest out, in tolerances
    let (mut most, mut text) = (-1.0, String::new());
    for (name, right) in one["outputs"].as_object().unwrap() {
        let (shape, tolerance) = (numbers(&right["shape"]), right["tolerance"][kind].as_f64().unwrap());
        for (place, (&found, &expected)) in mine[name].iter().zip(&numbers(&right["values"])).enumerate() {
            let distance = (found - expected).abs() / tolerance;
            let off = if found == expected { 0.0 } else if distance.is_nan() { f64::INFINITY } else { distance };
            if off <= most { continue; }
            let below = |axis: usize| shape[axis + 1..].iter().product::<f64>() as usize;
            let mut index: Vec<usize> = (0..shape.len()).map(|axis| place / below(axis) % shape[axis] as usize).collect();
            if let Some(rows) = one.get("rows") { index[0] = numbers(rows)[index[0]] as usize; }
            let largest = numbers(&right["values"]).iter().filter(|one| one.is_finite()).fold(1e-300, |most: f64, one| most.max(one.abs()));
            let roundings = (found - expected).abs() / (kernels::unit(kind) * largest);
            (most, text) = (off, format!("{name}{index:?} is {found}, expected {expected}, {roundings:.3} roundings off"));
        }
    }
    text
}
/// mine(function, parameters, inputs, weights) returns the outputs by name, or None where it does not compute such cases. False where
/// one is wrong, where none was checked, and where a file is damaged, which is said on standard error.
pub fn check(folder: &str, kind: &str, mine: impl Fn(&str, &Value, &Arrays, &Arrays) -> Option<Arrays>) -> bool {
    check_each(folder, kind, |function, parameters, one| {
        if one.get("requests").is_some() { return None; }
        mine(function, parameters, &arrays(&one["inputs"]), &arrays(&one["weights"]))
    })
}
/// The same for cases of several calls. mine is also given the state that it returned at the call before; None at the first of a request.
pub fn check_calls<S>(folder: &str, kind: &str, mine: impl Fn(&str, &Value, &Arrays, &Arrays, Option<S>) -> Option<(Arrays, S)>) -> bool {
    check_each(folder, kind, |function, parameters, one| {
        let (mut results, mut call, weights) = (Arrays::new(), 0, arrays(&one["weights"]));
        one.get("requests")?;
        for calls in requests(one)? {
            let mut state = None;
            for _ in 0..calls {
                let scope = format!("calls.{call}.");
                let mut inputs = arrays(&one["inputs"]);
                let own: Vec<String> = inputs.keys().filter_map(|name| name.strip_prefix(&scope)).map(String::from).collect();
                for name in own { let array = inputs.remove(&format!("{scope}{name}"))?; inputs.insert(name, array); }
                inputs.retain(|name, _| !name.starts_with("calls."));
                let (found, next) = mine(function, parameters, &inputs, &weights, state)?;
                results.extend(found.into_iter().map(|(name, array)| (format!("{scope}{name}"), array)));
                (state, call) = (Some(next), call + 1);
            }
        }
        Some(results)
    })
}
fn check_each(folder: &str, kind: &str, ask: impl Fn(&str, &Value, &Value) -> Option<Arrays>) -> bool {
    assert!(KINDS.contains(&kind), "{kind} is none of {KINDS:?}");
    let (mut failed, mut count, mut all) = (0, 0, vec![]);
    let mut paths: Vec<_> = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder}: {error}")).map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "json"));
    paths.sort();
    for path in paths {
        let file = match read(&path) {
            Ok(file) => file,
            Err(why) => {
                eprintln!("{} is no file of vectors, expected one as vectors/schema.json says: {why}", path.display());
                return false;
            }
        };
        let groups = file["groups"].as_array().unwrap().iter();
        for (of, one) in groups.flat_map(|of| of["cases"].as_array().unwrap().iter().map(move |one| (&of["parameters"], one))) {
            let Some(found) = ask(file["function"].as_str().unwrap(), of, one) else { continue };
            count += 1;
            let (id, why) = (one["id"].as_str().unwrap().to_string(), failure(one, &found, kind).unwrap_or_default());
            if !why.is_empty() {
                failed += 1;
                println!("failed {id}: {why}");
            }
            all.push((id, why));
        }
    }
    kernels::write_junit(&all);
    println!("{} of {count} cases passed", count - failed);
    failed == 0 && count > 0
}
