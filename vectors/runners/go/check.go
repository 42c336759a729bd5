// Package vectors checks a function by vectors/cases, with the standard library alone.
package vectors

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Object is JSON. Mine computes the outputs of a case by name; nil where it does not compute such cases.
type Object = map[string]any
type Array struct{ Shape, Values []float64 } // row-major; booleans are 0 and 1
type Mine func(function string, parameters Object, inputs, weights map[string]Array) map[string]Array

// MineCalls does it for one of several calls, with the state that it returned at the call before; nil at the first of a request.
type MineCalls func(function string, parameters Object, inputs, weights map[string]Array, state any) (map[string]Array, any)

func numbers(list any) (values []float64) { // also of "NaN", "Infinity" and "-Infinity"
	for _, one := range list.([]any) {
		value, _ := strconv.ParseFloat(fmt.Sprint(one), 64)
		values = append(values, value)
	}
	return
}

func arrays(entries any) map[string]Array {
	all, found := map[string]Array{}, Object{}
	found, _ = entries.(Object)
	for name, one := range found {
		entry, array := one.(Object), Array{Shape: numbers(one.(Object)["shape"])}
		size, _ := sizeOf(one)
		if seed, isByRule := entry["rule"].(float64); isByRule {
			for i := 0; i < size; i++ {
				array.Values = append(array.Values, (float64(byRule(uint32(seed), uint32(i))%65)-32)/16)
			}
		} else if multiplier, byPlace := entry["multiplier"].(float64); byPlace {
			for i := 0; i < size; i++ {
				array.Values = append(array.Values, (math.Mod(multiplier*float64(i)+entry["offset"].(float64), 251)-125)/64)
			}
		} else {
			array.Values = numbers(entry["values"])
		}
		all[name] = array
	}
	return all
}

var kinds = []string{"float64", "float32", "float16", "bfloat16"}

func isCount(value any) bool {
	number, is := value.(float64)
	return is && number >= 0 && number < 1e9 && number == math.Trunc(number)
}

func areNumbers(list any) (count int, are bool) {
	all, are := list.([]any)
	for _, one := range all {
		_, isNumber := one.(float64)
		are = are && (isNumber || one == "NaN" || one == "Infinity" || one == "-Infinity")
	}
	return len(all), are
}

func sizeOf(array any) (size int, isWhole bool) { // of an array that has all its numbers
	entry, _ := array.(Object)
	shape, isWhole := entry["shape"].([]any)
	product := 1.0
	for _, one := range shape {
		if isWhole = isWhole && isCount(one); isWhole {
			product *= one.(float64)
		}
	}
	isWhole = isWhole && product > 0 && product < 1e7
	if values, given := entry["values"]; given {
		count, are := areNumbers(values)
		return int(product), isWhole && are && float64(count) == product
	}
	isWhole = isWhole && len(shape) <= 5
	if isCount(entry["rule"]) {
		return int(product), isWhole
	}
	return int(product), isWhole && isCount(entry["multiplier"]) && isCount(entry["offset"])
}

func callOf(name string) (call int, isOne bool) { // 2 of calls.2.output; -1 where it is of no call
	if !strings.HasPrefix(name, "calls.") {
		return -1, true
	}
	number, after, _ := strings.Cut(strings.TrimPrefix(name, "calls."), ".")
	call, err := strconv.Atoi(number)
	return call, err == nil && strconv.Itoa(call) == number && call >= 0 && after != ""
}

func requestsOf(one Object) (requests []int, count int, are bool) { // how many calls each has, and all together
	value, has := one["requests"]
	if !has {
		return nil, 0, true
	}
	list, are := value.([]any)
	are = are && len(list) > 0
	for _, each := range list {
		if are = are && isCount(each) && each.(float64) > 0; !are {
			return nil, 0, false
		}
		requests, count = append(requests, int(each.(float64))), count+int(each.(float64))
		are = count <= 1000
	}
	return requests, count, are
}

func hasCalls(one Object) bool { // each has inputs and outputs, and there is no other
	requests, count, are := requestsOf(one)
	_, hasRows := one["rows"]
	are = are && (requests == nil || !hasRows)
	for _, part := range []string{"inputs", "outputs"} {
		calls := map[int]bool{}
		for name := range one[part].(Object) {
			call, isOne := callOf(name)
			are = are && isOne && call < count && (call >= 0 || count == 0 || part == "inputs")
			if call >= 0 {
				calls[call] = true
			}
		}
		are = are && len(calls) == count
	}
	return are
}

func isCase(one Object) bool { // one that a program of zeros can't pass
	inputs, _ := one["inputs"].(Object)
	outputs, _ := one["outputs"].(Object)
	weights, _ := one["weights"].(Object)
	id, isNamed := one["id"].(string)
	rows, hasRows := one["rows"].([]any)
	isWhole := isNamed && id != "" && len(inputs) > 0 && len(outputs) > 0 && hasCalls(one)
	for _, part := range []Object{inputs, weights, outputs} {
		for _, entry := range part {
			_, has := sizeOf(entry)
			isWhole = isWhole && has
		}
	}
	for _, row := range rows {
		isWhole = isWhole && isCount(row)
	}
	for _, right := range outputs {
		if !isWhole {
			return false
		}
		tolerance, _ := right.(Object)["tolerance"].(Object)
		for _, kind := range kinds {
			limit, is := tolerance[kind].(float64)
			isWhole = isWhole && is && limit > 0
		}
		shape := right.(Object)["shape"].([]any)
		isWhole = isWhole && (!hasRows || len(shape) == 2 && shape[0] == float64(len(rows)))
	}
	for _, which := range []string{"accepted", "wrong"} {
		alternatives, _ := one[which].(Object)
		for _, other := range alternatives {
			given, count := other.(Object), 0
			for name, values := range given {
				if name != "formulas" {
					size, has := sizeOf(outputs[name])
					found, are := areNumbers(values)
					isWhole = isWhole && has && are && found == size
					count++
				}
			}
			isWhole = isWhole && count > 0
		}
	}
	return isWhole
}

func read(path string) (file Object, err error) { // a file of vectors, whole
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &file)
	}
	if err != nil {
		return nil, err
	}
	groups, isOne := file["groups"].([]any)
	if _, isNamed := file["function"].(string); !isOne || !isNamed || file["schema"] != "vectors_schema_1" && file["schema"] != "vectors_kernels_1" {
		return nil, fmt.Errorf("it is none of vectors_schema_1")
	}
	for _, each := range groups {
		group, _ := each.(Object)
		_, hasParameters := group["parameters"].(Object)
		cases, hasCases := group["cases"].([]any)
		if !hasParameters || !hasCases {
			return nil, fmt.Errorf("a group has no cases")
		}
		for _, one := range cases {
			given, _ := one.(Object)
			if isKernels := file["schema"] == "vectors_kernels_1"; isKernels && !isKernel(given) || !isKernels && !isCase(given) {
				return nil, fmt.Errorf("%v has not the numbers of its arrays", given["id"])
			}
		}
	}
	return file, nil
}

// The rows that a case has of a result; false where the result has another shape.
func rowsOf(whole Array, right Object, rows any) (Array, bool) {
	shape := numbers(right["shape"])
	if rows != nil && len(whole.Shape) == 2 {
		shape[0] = whole.Shape[0]
	}
	size := 1.0
	for _, one := range shape {
		size *= one
	}
	if fmt.Sprint(shape) != fmt.Sprint(whole.Shape) || float64(len(whole.Values)) != size {
		return whole, false
	}
	if rows == nil {
		return whole, true
	}
	some, width := Array{Shape: numbers(right["shape"])}, int(shape[1])
	for _, row := range numbers(rows) {
		if row >= shape[0] {
			return whole, false
		}
		some.Values = append(some.Values, whole.Values[int(row)*width:(int(row)+1)*width]...)
	}
	return some, true
}

func isNear(mine, right []float64, tolerance float64) bool {
	for i, value := range right {
		if i >= len(mine) || !(mine[i] == value || math.IsNaN(mine[i]) && math.IsNaN(value) || math.Abs(mine[i]-value) <= tolerance) {
			return false
		}
	}
	return len(mine) == len(right)
}

func isOf(one Object, mine map[string]Array, other Object, kind string) bool { // nil: what is right
	for name, right := range one["outputs"].(Object) {
		tolerance, values := right.(Object)["tolerance"].(Object)[kind].(float64), numbers(right.(Object)["values"])
		if wrong, differs := other[name]; differs {
			values, tolerance = numbers(wrong), math.Max(tolerance, 1e-6)
			largest := 1.0
			for _, value := range values {
				if !math.IsInf(value, 0) && !math.IsNaN(value) {
					largest = math.Max(largest, math.Abs(value))
				}
			}
			tolerance *= largest
		}
		if !isNear(mine[name].Values, values, tolerance) {
			return false
		}
	}
	return true
}

func named(one Object, mine map[string]Array, which, kind string) (names []string) {
	alternatives, _ := one[which].(Object)
	for name, other := range alternatives {
		if isOf(one, mine, other.(Object), kind) {
			names = append(names, name)
		}
	}
	return
}

func failure(one Object, found map[string]Array, kind string) string { // "" where it is right
	mine, isLarge := map[string]Array{}, false
	for name, right := range one["outputs"].(Object) {
		_, isLarge = right.(Object)["places"]
		rows, is := rowsOf(found[name], right.(Object), one["rows"])
		if !is {
			return fmt.Sprintf("there is no %s among the results, or it has another shape than %v", name, right.(Object)["shape"])
		}
		mine[name] = rows
	}
	if isLarge {
		return kernelFailure(one, mine, kind)
	}
	if isOf(one, mine, nil, kind) || len(named(one, mine, "accepted", kind)) > 0 {
		return ""
	}
	if names := named(one, mine, "wrong", kind); len(names) > 0 {
		return "your numbers are those of " + strings.Join(names, " or ")
	}
	return furthest(one, mine, kind) + "; no mistake that this case has gives these numbers"
}

func furthest(one Object, mine map[string]Array, kind string) (text string) { // where the results are furthest out, in tolerances
	most := -1.0
	for name, right := range one["outputs"].(Object) {
		entry := right.(Object)
		shape, values, tolerance := numbers(entry["shape"]), numbers(entry["values"]), entry["tolerance"].(Object)[kind].(float64)
		for place, expected := range values {
			found, off := mine[name].Values[place], 0.0
			if found != expected {
				off = math.Abs(found-expected) / tolerance
			}
			if math.IsNaN(off) {
				off = math.Inf(1)
			}
			if off <= most {
				continue
			}
			index, rest := make([]int, len(shape)), place
			for axis := len(shape) - 1; axis >= 0; axis-- {
				index[axis], rest = rest%int(shape[axis]), rest/int(shape[axis])
			}
			if one["rows"] != nil {
				index[0] = int(numbers(one["rows"])[index[0]])
			}
			shown := strings.ReplaceAll(fmt.Sprint(index), " ", ", ")
			most, text = off, fmt.Sprintf("%s%s is %.9g, expected %.9g, %.3g roundings off", name, shown, found, expected,
				math.Abs(found-expected)/(units[kind]*math.Max(largest(values), 1e-300)))
		}
	}
	return
}

// What a call is given: its own inputs, and those of all calls.
func inputsOf(one Object, scope string) map[string]Array {
	given := map[string]Array{}
	for name, array := range arrays(one["inputs"]) {
		if strings.HasPrefix(name, scope) {
			given[strings.TrimPrefix(name, scope)] = array
		} else if call, _ := callOf(name); call < 0 {
			if _, has := given[name]; !has {
				given[name] = array
			}
		}
	}
	return given
}

// The outputs of all calls; nil where it does not compute such cases.
func (mine MineCalls) results(function string, parameters, one Object) map[string]Array {
	found, call := map[string]Array{}, 0
	requests, _, _ := requestsOf(one)
	for _, calls := range requests {
		var state any
		for end := call + calls; call < end; call++ {
			scope := fmt.Sprintf("calls.%d.", call)
			outputs, next := mine(function, parameters, inputsOf(one, scope), arrays(one["weights"]), state)
			if outputs == nil {
				return nil
			}
			for name, array := range outputs {
				found[scope+name] = array
			}
			state = next
		}
	}
	if call == 0 {
		return nil
	}
	return found
}

// Check prints a line for each case that fails, and returns true where none does, some were checked, and no file is damaged.
func Check(folder, kind string, mine Mine) bool {
	return checkEach(folder, kind, func(function string, parameters, one Object) map[string]Array {
		if _, hasCalls := one["requests"]; hasCalls {
			return nil
		}
		return mine(function, parameters, arrays(one["inputs"]), arrays(one["weights"]))
	})
}

// CheckCalls does the same with the cases of several calls.
func CheckCalls(folder, kind string, mine MineCalls) bool {
	return checkEach(folder, kind, mine.results)
}

func checkEach(folder, kind string, ask func(function string, parameters, one Object) map[string]Array) bool {
	failed, count, all := 0, 0, []said{}
	paths, _ := filepath.Glob(filepath.Join(folder, "*.json"))
	for _, path := range paths {
		file, err := read(path)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s is no file of vectors, expected one as vectors/schema.json says: %v\n", path, err)
			return false
		}
		for _, group := range file["groups"].([]any) {
			for _, each := range group.(Object)["cases"].([]any) {
				one := each.(Object)
				found := ask(file["function"].(string), group.(Object)["parameters"].(Object), one)
				if found == nil {
					continue
				}
				count++
				why := failure(one, found, kind)
				all = append(all, said{one["id"].(string), why})
				if why != "" {
					failed++
					fmt.Printf("failed %s: %s\n", one["id"], why)
				}
			}
		}
	}
	writeJunit(all, failed)
	fmt.Printf("%d of %d cases passed\n", count-failed, count)
	return failed == 0 && count > 0
}
