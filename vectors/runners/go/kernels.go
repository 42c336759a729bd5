package vectors

import (
	"fmt"
	"math"
	"os"
	"strings"
)

var units = map[string]float64{"float64": 0x1p-53, "float32": 0x1p-24, "float16": 0x1p-11, "bfloat16": 0x1p-8} // the largest error of a rounding

// The rule: number i of an input is (byRule(seed, i) % 65 - 32) / 16; the sign of number i in a sum is minus where byRule(0, i) is odd.
func byRule(seed, i uint32) uint32 {
	x := i*0x9E3779B1 + seed*0x85EBCA6B
	x = (x ^ x>>16) * 0x7FEB352D
	x = (x ^ x>>15) * 0x846CA68B
	return x ^ x>>16
}

func places(list any, limit int) (values []int, are bool) {
	all, are := list.([]any)
	for _, one := range all {
		number, _ := one.(float64)
		are = are && isCount(one) && int(number) < limit
		values = append(values, int(number))
	}
	return
}

func areAbove(list []any) bool {
	for _, one := range list {
		if value, is := one.(float64); !is || value <= 0 || math.IsInf(value, 0) {
			return false
		}
	}
	return true
}

func isKernel(one Object) bool { // a case that keeps some numbers and sums of large results, and that a program of zeros can't pass
	inputs, _ := one["inputs"].(Object)
	outputs, _ := one["outputs"].(Object)
	id, isNamed := one["id"].(string)
	isWhole := isNamed && id != "" && len(inputs) > 0 && len(outputs) > 0
	for _, entry := range inputs {
		_, has := sizeOf(entry)
		isWhole = isWhole && has
	}
	for _, each := range outputs {
		right, _ := each.(Object)
		size, isShape := sizeOf(Object{"shape": right["shape"], "rule": 0.0})
		at, are := places(right["places"], size)
		block, _ := right["block"].(float64)
		if !isWhole || !isShape || !are || !isCount(right["block"]) || block == 0 {
			return false
		}
		count, areValues := areNumbers(right["values"])
		scale, _ := right["scale"].([]any)
		roundings, _ := right["roundings"].(Object)
		rough, _ := right["rough"].(Object)
		isWhole = areValues && count == len(at)+(size+int(block)-1)/int(block) && len(scale) == count && areAbove(scale)
		for _, kind := range kinds {
			isWhole = isWhole && areAbove([]any{roundings[kind]})
		}
		for _, kind := range kinds[2:] {
			limit, is := rough[kind].(float64)
			isWhole = isWhole && is && limit >= 0
		}
		isZero := true
		for _, value := range right["values"].([]any) {
			isZero = isZero && (value == 0.0 || value == "NaN")
		}
		isWhole = isWhole && !isZero
	}
	for _, which := range []string{"accepted", "wrong"} {
		alternatives, has := one[which].(Object)
		isWhole = isWhole && has
		for _, other := range alternatives {
			forms, _ := other.([]any)
			isWhole = isWhole && len(forms) > 0
			for _, each := range forms {
				form, _ := each.(Object)
				isWhole = isWhole && len(form) > 1
				for name, values := range form {
					part, _ := values.(Object)
					right, _ := outputs[name].(Object)
					if name != "form" && isWhole {
						kept, _ := right["values"].([]any)
						at, areAt := places(part["at"], len(kept))
						count, are := areNumbers(part["values"])
						isWhole = areAt && are && count == len(at) && count > 0
					}
				}
			}
		}
	}
	return isWhole
}

func kept(values []float64, right Object) (numbers []float64) { // the numbers at some places, and sums of blocks with signs by the rule
	at, _ := places(right["places"], len(values))
	for _, place := range at {
		numbers = append(numbers, values[place])
	}
	block := int(right["block"].(float64))
	for begin := 0; begin < len(values); begin += block {
		sum := 0.0
		for i := begin; i < begin+block && i < len(values); i++ {
			sum += values[i] * (1 - 2*float64(byRule(0, uint32(i))&1))
		}
		numbers = append(numbers, sum)
	}
	return
}

func largest(values []float64) (most float64) {
	for _, value := range values {
		if !math.IsInf(value, 0) && !math.IsNaN(value) {
			most = math.Max(most, math.Abs(value))
		}
	}
	return
}

func isForm(outputs Object, mine map[string][]float64, form Object, kind string) bool { // the numbers that it has, to seven digits
	for name, part := range form {
		if name == "form" {
			continue
		}
		right := outputs[name].(Object)
		wrong, values, scale := numbers(part.(Object)["values"]), numbers(right["values"]), numbers(right["scale"])
		at, _ := places(part.(Object)["at"], len(values))
		same := []float64{}
		for _, i := range at {
			same = append(same, values[i])
		}
		growth := math.Max(1, largest(wrong)/math.Max(largest(same), 1e-300))
		for i, value := range wrong {
			tolerance := right["roundings"].(Object)[kind].(float64) * units[kind] * scale[at[i]] * growth
			if least := 1e-6 * math.Abs(value); least < math.Inf(1) {
				tolerance = math.Max(tolerance, least)
			}
			if !isNear([]float64{mine[name][at[i]]}, []float64{value}, tolerance) {
				return false
			}
		}
	}
	return true
}

func firstForm(outputs Object, mine map[string][]float64, forms any, kind string) (string, bool) {
	for _, form := range forms.([]any) {
		if isForm(outputs, mine, form.(Object), kind) {
			return form.(Object)["form"].(string), true
		}
	}
	return "", false
}

func indexOf(shape []float64, place int) string {
	index := make([]int, len(shape))
	for axis := len(shape) - 1; axis >= 0; axis-- {
		index[axis], place = place%int(shape[axis]), place/int(shape[axis])
	}
	return strings.ReplaceAll(fmt.Sprint(index), " ", ", ")
}

func kernelFailure(one Object, whole map[string]Array, kind string) string { // "" where it is right
	outputs, mine := one["outputs"].(Object), map[string][]float64{}
	most, isRough, text, isRight := -1.0, strings.HasSuffix(kind, "float16"), "", map[string]bool{}
	for name, each := range outputs {
		right := each.(Object)
		mine[name], isRight[name] = kept(whole[name].Values, right), true
		values, scale, shape := numbers(right["values"]), numbers(right["scale"]), numbers(right["shape"])
		limit := right["roundings"].(Object)[kind].(float64)
		rough, _ := right["rough"].(Object)[kind].(float64)
		at, _ := places(right["places"], len(whole[name].Values))
		block := int(right["block"].(float64))
		for i, expected := range values {
			found, off := mine[name][i], 0.0
			if !isNear([]float64{found}, []float64{expected}, 0) {
				off = math.Abs(found-expected) / (units[kind] * scale[i])
			}
			if math.IsNaN(off) {
				off = math.Inf(1)
			}
			isRight[name] = isRight[name] && off <= limit
			isRough = isRough && off <= math.Max(rough, limit)
			if off/limit <= most {
				continue
			}
			where := ""
			if begin, end := (i-len(at))*block, (i-len(at)+1)*block; i < len(at) {
				where = name + indexOf(shape, at[i])
			} else if where = name + indexOf(shape, begin); block > 1 {
				if end > len(whole[name].Values) {
					end = len(whole[name].Values)
				}
				where = "the signed sum of " + where + " to " + name + indexOf(shape, end-1)
			}
			most, text = off/limit, fmt.Sprintf("%s is %.9g, expected %.9g, %.3g roundings off, %.3g allowed; ", where, found, expected, off, limit)
		}
	}
	areRight := func(form Object) bool {
		for name := range outputs {
			if part, has := form[name]; !isRight[name] && !(has && isForm(outputs, mine, Object{name: part}, kind)) {
				return false
			}
		}
		return true
	}
	if areRight(nil) {
		return ""
	}
	for _, forms := range one["accepted"].(Object) {
		for _, form := range forms.([]any) {
			if areRight(form.(Object)) {
				return ""
			}
		}
	}
	names := []string{}
	for name, forms := range one["wrong"].(Object) {
		if form, is := firstForm(outputs, mine, forms, kind); is && form != "" {
			names = append(names, name+" ("+form+")")
		} else if is {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		return "your numbers are those of " + strings.Join(names, " or ")
	}
	if isRough {
		return text + "kept_in_short_type is as far off: sums or scores in " + kind
	}
	return text + "no mistake that this case has gives these numbers"
}

type said struct{ id, why string }

// Writes a report for build servers where the variable VECTORS_JUNIT names a file.
func writeJunit(all []said, failed int) {
	path := os.Getenv("VECTORS_JUNIT")
	if path == "" {
		return
	}
	text := fmt.Sprintf("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"vectors\" tests=\"%d\" failures=\"%d\">\n", len(all), failed)
	escape := strings.NewReplacer("&", "&amp;", "<", "&lt;", "\"", "&quot;")
	for _, one := range all {
		function, _, _ := strings.Cut(one.id, "/")
		text += fmt.Sprintf(" <testcase classname=\"%s\" name=\"%s\">", function, one.id)
		if one.why != "" {
			text += "<failure message=\"" + escape.Replace(one.why) + "\"/>"
		}
		text += "</testcase>\n"
	}
	if err := os.WriteFile(path, []byte(text+"</testsuite>\n"), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}
