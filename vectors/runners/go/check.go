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
		if multiplier, byPlace := entry["multiplier"].(float64); byPlace {
			for i := 0; i < int(array.Shape[0]*array.Shape[1]); i++ {
				array.Values = append(array.Values, (math.Mod(multiplier*float64(i)+entry["offset"].(float64), 251)-125)/64)
			}
		} else {
			array.Values = numbers(entry["values"])
		}
		all[name] = array
	}
	return all
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

// Check prints a line for each case that fails, and returns true where none does.
func Check(folder, kind string, mine Mine) bool {
	failed, count := 0, 0
	paths, _ := filepath.Glob(filepath.Join(folder, "*.json"))
	for _, path := range paths {
		file, text := Object{}, []byte{}
		text, _ = os.ReadFile(path)
		if err := json.Unmarshal(text, &file); err != nil {
			panic(path + ": " + err.Error())
		}
		for _, group := range file["groups"].([]any) {
			for _, each := range group.(Object)["cases"].([]any) {
				one := each.(Object)
				found := mine(file["function"].(string), group.(Object)["parameters"].(Object), arrays(one["inputs"]), arrays(one["weights"]))
				if found == nil {
					continue
				}
				if rows, some := one["rows"]; some {
					whole, values := found["output"], []float64{}
					for _, row := range numbers(rows) {
						width := int(whole.Shape[len(whole.Shape)-1])
						values = append(values, whole.Values[int(row)*width:(int(row)+1)*width]...)
					}
					found["output"] = Array{Values: values}
				}
				count++
				if isOf(one, found, nil, kind) || len(named(one, found, "accepted", kind)) > 0 {
					continue
				}
				failed++
				if names := named(one, found, "wrong", kind); len(names) > 0 {
					fmt.Printf("failed %s: your numbers are those of %s\n", one["id"], strings.Join(names, " or "))
				} else {
					fmt.Printf("failed %s: no mistake that this case has gives these numbers\n", one["id"])
				}
			}
		}
	}
	fmt.Printf("%d of %d cases passed\n", count-failed, count)
	return failed == 0 && count > 0
}
