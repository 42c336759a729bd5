//! Cases of kernels: of large results some numbers are kept, and signed sums of all.
use crate::{expect, is_near, is_number, numbers, size_of, Arrays, KINDS};
use serde_json::Value;
use std::collections::BTreeMap;

pub fn unit(kind: &str) -> f64 { [2f64.powi(-53), 2f64.powi(-24), 2f64.powi(-11), 2f64.powi(-8)][KINDS.iter().position(|&one| one == kind).unwrap()] }
// The rule: number i of an input is (by_rule(seed, i) % 65 - 32) / 16; the sign of number i in a sum is minus where by_rule(0, i) is odd.
pub fn by_rule(seed: u32, i: u32) -> u32 {
    let mut x = i.wrapping_mul(0x9E3779B1).wrapping_add(seed.wrapping_mul(0x85EBCA6B));
    x = (x ^ (x >> 16)).wrapping_mul(0x7FEB352D);
    x = (x ^ (x >> 15)).wrapping_mul(0x846CA68B);
    x ^ (x >> 16)
}
fn places(list: &Value, limit: usize) -> Option<Vec<usize>> {
    list.as_array()?.iter().map(|one| one.as_u64().map(|at| at as usize).filter(|&at| at < limit)).collect()
}
fn is_above(one: &Value) -> bool { one.as_f64().is_some_and(|one| one > 0.0) }
pub fn expect_kernel(one: &Value) -> Option<()> { // one that a program of zeros can't pass
    let (inputs, outputs) = (one["inputs"].as_object()?, one["outputs"].as_object()?);
    expect(one["id"].is_string() && !inputs.is_empty() && !outputs.is_empty())?;
    for entry in inputs.values() { size_of(entry)?; }
    for right in outputs.values() {
        let size = size_of(&serde_json::json!({"shape": right["shape"], "rule": 0}))?;
        let (at, block) = (places(&right["places"], size)?, right["block"].as_u64().filter(|&block| block > 0)? as usize);
        let (values, scale) = (right["values"].as_array()?, right["scale"].as_array()?);
        expect(values.len() == at.len() + size.div_ceil(block) && scale.len() == values.len() && values.iter().all(is_number) && scale.iter().all(is_above))?;
        expect(KINDS.iter().all(|&kind| is_above(&right["roundings"][kind])))?;
        expect(KINDS[2..].iter().all(|&kind| right["rough"][kind].as_f64().is_some_and(|one| one >= 0.0)))?;
        expect(values.iter().any(|value| value.as_f64() != Some(0.0) && value != "NaN"))?;
    }
    for which in ["accepted", "wrong"] {
        for forms in one[which].as_object()?.values() {
            expect(!forms.as_array()?.is_empty())?;
            for form in forms.as_array()? {
                expect(form["form"].is_string() && form.as_object()?.len() > 1)?;
                for (name, part) in form.as_object()?.iter().filter(|(name, _)| *name != "form") {
                    let (at, values) = (places(&part["at"], outputs.get(name)?["values"].as_array()?.len())?, part["values"].as_array()?);
                    expect(!at.is_empty() && at.len() == values.len() && values.iter().all(is_number))?;
                }
            }
        }
    }
    Some(())
}
fn kept(values: &[f64], right: &Value) -> Vec<f64> {
    let sign = |i: usize| if by_rule(0, i as u32) & 1 == 1 { -1.0 } else { 1.0 };
    let signed: Vec<f64> = values.iter().enumerate().map(|(i, value)| sign(i) * value).collect();
    let sums = signed.chunks(right["block"].as_u64().unwrap() as usize).map(|block| block.iter().sum());
    places(&right["places"], values.len()).unwrap().into_iter().map(|place| values[place]).chain(sums).collect()
}
fn largest<'a>(values: impl Iterator<Item = &'a f64>) -> f64 { values.filter(|one| one.is_finite()).fold(0.0, |most, one| most.max(one.abs())) }
type Results = BTreeMap<String, Vec<f64>>;
fn is_part(right: &Value, mine: &[f64], part: &Value, kind: &str) -> bool { // the numbers that a form has, to seven digits
    let (wrong, values, scale) = (numbers(&part["values"]), numbers(&right["values"]), numbers(&right["scale"]));
    let at = places(&part["at"], values.len()).unwrap();
    let growth = (largest(wrong.iter()) / largest(at.iter().map(|&i| &values[i])).max(1e-300)).max(1.0);
    at.iter().zip(&wrong).all(|(&i, &value)| {
        let least = if value.is_finite() { 1e-6 * value.abs() } else { 0.0 };
        is_near(&[mine[i]], &[value], (right["roundings"][kind].as_f64().unwrap() * unit(kind) * scale[i] * growth).max(least))
    })
}
fn is_form(outputs: &Value, mine: &Results, form: &Value, kind: &str) -> bool {
    form.as_object().unwrap().iter().all(|(name, part)| name == "form" || is_part(&outputs[name], &mine[name], part, kind))
}
fn place_text(name: &str, right: &Value, at: usize) -> String {
    let shape = numbers(&right["shape"]);
    let size = shape.iter().product::<f64>() as usize;
    let index = |place: usize| {
        let below = |axis: usize| shape[axis + 1..].iter().product::<f64>() as usize;
        format!("{name}{:?}", (0..shape.len()).map(|axis| place / below(axis) % shape[axis] as usize).collect::<Vec<_>>())
    };
    let (chosen, block) = (places(&right["places"], size).unwrap(), right["block"].as_u64().unwrap() as usize);
    if at < chosen.len() { return index(chosen[at]); }
    let begin = (at - chosen.len()) * block;
    let end = (begin + block).min(size) - 1;
    if end > begin { format!("the signed sum of {} to {}", index(begin), index(end)) } else { index(begin) }
}
pub fn failure(one: &Value, whole: &Arrays, kind: &str) -> Option<String> { // nothing where it is right
    let (outputs, mut mine, mut rights) = (&one["outputs"], Results::new(), BTreeMap::new());
    let (mut most, mut text, mut is_rough) = (-1.0, String::new(), kind.ends_with("float16"));
    for (name, right) in outputs.as_object().unwrap() {
        let Some(found) = whole.get(name).filter(|found| found.shape.iter().map(|&size| size as f64).eq(numbers(&right["shape"])) &&
                                                 found.values.len() == found.shape.iter().product::<usize>()) else {
            return Some(format!("there is no {name} among the results, or it has another shape than {}", right["shape"]));
        };
        let (numbers_, limit) = (kept(&found.values, right), right["roundings"][kind].as_f64().unwrap());
        let rough = right["rough"][kind].as_f64().unwrap_or(0.0).max(limit);
        let mut is_right = true;
        for (at, ((&found, expected), scale)) in numbers_.iter().zip(numbers(&right["values"])).zip(numbers(&right["scale"])).enumerate() {
            let distance = (found - expected).abs() / (unit(kind) * scale);
            let off = if is_near(&[found], &[expected], 0.0) { 0.0 } else if distance.is_nan() { f64::INFINITY } else { distance };
            is_right &= off <= limit;
            is_rough &= off <= rough;
            if off / limit > most {
                (most, text) = (off / limit, format!("{} is {found}, expected {expected}, {off:.3} roundings off, {limit} allowed; ", place_text(name, right, at)));
            }
        }
        rights.insert(name.clone(), is_right);
        mine.insert(name.clone(), numbers_);
    }
    let are_right = |form: &Value| rights.iter().all(|(name, &is_right)| is_right || (form[name].is_object() && is_part(&outputs[name], &mine[name], &form[name], kind)));
    let mut accepted = one["accepted"].as_object().unwrap().values().flat_map(|forms| forms.as_array().unwrap());
    if are_right(&Value::Null) || accepted.any(are_right) { return None; }
    let names: Vec<String> = one["wrong"].as_object().unwrap().iter().filter_map(|(name, forms)| {
        let form = forms.as_array().unwrap().iter().find(|form| is_form(outputs, &mine, form, kind))?["form"].as_str().unwrap();
        Some(if form.is_empty() { name.clone() } else { format!("{name} ({form})") })
    }).collect();
    if !names.is_empty() { return Some(format!("your numbers are those of {}", names.join(" or "))); }
    let rough = format!("kept_in_short_type is as far off: sums or scores in {kind}");
    Some(text + if is_rough { &rough } else { "no mistake that this case has gives these numbers" })
}
/// Writes a report for build servers where the variable VECTORS_JUNIT names a file: of each case the id, and what is said of it.
pub fn write_junit(all: &[(String, String)]) {
    let Ok(path) = std::env::var("VECTORS_JUNIT") else { return };
    let failed = all.iter().filter(|(_, why)| !why.is_empty()).count();
    let mut text = format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"vectors\" tests=\"{}\" failures=\"{failed}\">\n", all.len());
    for (id, why) in all {
        let why = why.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
        let inside = if why.is_empty() { why } else { format!("<failure message=\"{why}\"/>") };
        text += &format!(" <testcase classname=\"{}\" name=\"{id}\">{inside}</testcase>\n", id.split('/').next().unwrap());
    }
    if let Err(error) = std::fs::write(&path, text + "</testsuite>\n") { eprintln!("{path}: {error}"); }
}
