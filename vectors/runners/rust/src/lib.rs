//! Checks a function by vectors/cases: vectors::check("cases", "float32", mine) prints a line for each case that fails.
use serde_json::Value;
use std::{collections::BTreeMap, fs, path::Path};
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
const KINDS: [&str; 4] = ["float64", "float32", "float16", "bfloat16"];
fn is_number(one: &Value) -> bool { one.is_number() || matches!(one.as_str(), Some("NaN" | "Infinity" | "-Infinity")) }
fn size_of(entry: &Value) -> Option<usize> { // of an array that is whole
    let sizes = entry["shape"].as_array()?.iter().map(|one| one.as_u64().filter(|&size| size > 0));
    let size = sizes.fold(Some(1usize), |product, one| product?.checked_mul(one? as usize))?;
    let is_whole = match entry["values"].as_array() {
        Some(values) => values.len() == size && values.iter().all(is_number),
        None => entry["multiplier"].is_u64() && entry["offset"].is_u64() && size < 10_000_000,
    };
    is_whole.then_some(size)
}
fn expect(holds: bool) -> Option<()> { holds.then_some(()) }
fn expect_case(one: &Value) -> Option<()> { // one that a program of zeros can't pass
    let (inputs, outputs) = (one["inputs"].as_object()?, one["outputs"].as_object()?);
    expect(one["id"].is_string() && !inputs.is_empty() && !outputs.is_empty())?;
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
    let is_one = file["schema"] == "vectors_schema_1" && file["function"].is_string();
    for group in file["groups"].as_array().filter(|_| is_one).ok_or("it is none of vectors_schema_1")? {
        for one in group["cases"].as_array().ok_or("a group has no cases")? {
            expect_case(one).ok_or_else(|| format!("{} has not the numbers of its arrays", one["id"]))?;
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
    let mut mine = Results::new();
    for (name, right) in one["outputs"].as_object().unwrap() {
        match found.get(name).and_then(|whole| rows_of(whole, right, one.get("rows"))) {
            Some(values) => mine.insert(name.clone(), values),
            None => return Some(format!("there is no {name} among the results, or it has another shape than {}", right["shape"])),
        };
    }
    if is_of(one, &mine, &Value::Null, kind) || !named(one, &mine, "accepted", kind).is_empty() { return None; }
    let names = named(one, &mine, "wrong", kind).join(" or ");
    let why = if names.is_empty() { "no mistake that this case has gives these numbers" } else { "your numbers are those of " };
    Some(format!("{why}{names}"))
}
/// mine(function, parameters, inputs, weights) returns the outputs by name, or None where it does not compute such cases. False where
/// one is wrong, where none was checked, and where a file is damaged, which is said on standard error.
pub fn check(folder: &str, kind: &str, mine: impl Fn(&str, &Value, &Arrays, &Arrays) -> Option<Arrays>) -> bool {
    assert!(KINDS.contains(&kind), "{kind} is none of {KINDS:?}");
    let (mut failed, mut count) = (0, 0);
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
            let answer = mine(file["function"].as_str().unwrap(), of, &arrays(&one["inputs"]), &arrays(&one["weights"]));
            let Some(found) = answer else { continue };
            count += 1;
            if let Some(why) = failure(one, &found, kind) {
                failed += 1;
                println!("failed {}: {why}", one["id"].as_str().unwrap());
            }
        }
    }
    println!("{} of {count} cases passed", count - failed);
    failed == 0 && count > 0
}
