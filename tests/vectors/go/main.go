// Attention of one sequence, at once, and in several calls of the function that the variable CALLS names, by loops, with a mistake where the variable MISTAKE names one.
package main

import (
	"math"
	"os"

	"attn.example/vectors"
)

var mistake = os.Getenv("MISTAKE")

func has(name string) bool { return mistake == name }

func one(condition bool) float64 {
	if condition {
		return 1
	}
	return 0
}

func number(parameters vectors.Object, name string, otherwise float64) float64 {
	if value, given := parameters[name].(float64); given {
		return value
	}
	return otherwise
}

func softmax(row, sink []float64) []float64 {
	largest, sum := math.Inf(-1), 0.0
	for _, score := range append(append([]float64{}, row...), sink...) {
		largest = math.Max(largest, score)
	}
	for _, score := range append(append([]float64{}, row...), sink...) {
		sum += math.Exp(score - largest)
	}
	weights := make([]float64, len(row))
	for j, score := range row {
		if !math.IsInf(largest, -1) {
			weights[j] = math.Exp(score-largest) / sum
		}
	}
	return weights
}

func transpose(rows [][]float64) [][]float64 {
	turned := make([][]float64, len(rows[0]))
	for j := range turned {
		for _, row := range rows {
			turned[j] = append(turned[j], row[j])
		}
	}
	return turned
}

func each(rows [][]float64, f func(i, j int, x float64) float64) [][]float64 {
	for i, row := range rows {
		for j, x := range row {
			rows[i][j] = f(i, j, x)
		}
	}
	return rows
}

func allows(i, j, n, m int, parameters vectors.Object, mask []float64) bool {
	first, _ := parameters["causal"].(string)
	shift := one(first == "bottom-right") * float64(m-n)
	row, key := float64(i), float64(j)
	place, diagonal := row+shift*one(!has("window_top_left")), row+shift*one(!has("causal_top_left"))
	isEarly := first == "" || key <= diagonal+one(has("causal_next"))-one(has("causal_strict"))
	left, right := number(parameters, "left_window", math.Inf(1)), number(parameters, "right_window", math.Inf(1))
	isNear := has("window_missing") || key >= place-left-one(has("window_off_by_one")) && key <= place+right
	isKept := key < number(parameters, "kept", 0)
	if has("sink_tokens_early") {
		return isEarly && isNear || isKept
	}
	isNear = isNear || isKept && !has("sink_tokens_missing")
	return isNear && isEarly && (mask == nil || mask[i*m+j] != 0)
}

func attention(function string, parameters vectors.Object, inputs, _ map[string]vectors.Array) map[string]vectors.Array {
	_, isContinued := inputs["past_keys"]
	_, isPadded := inputs["lengths"]
	_, isLearned := parameters["score"]
	queries, keys, values := inputs["queries"], inputs["keys"], inputs["values"]
	if function != "attention" || isContinued || isPadded || isLearned || len(queries.Shape) != 2 {
		return nil
	}
	n, d, m, v := int(queries.Shape[0]), int(queries.Shape[1]), int(values.Shape[0]), int(values.Shape[1])
	root := math.Sqrt(float64(d))
	scale := number(parameters, "scale", 1/root)
	if other, found := map[string]float64{"no_scale": 1, "scale_d_k": 1 / root / root, "scale_inverse": root, "scale_default": 1 / root}[mistake]; found {
		scale = other
	}
	mask, bias := inputs["mask"].Values, inputs["bias"].Values
	isMasked := mask != nil || parameters["causal"] != nil || parameters["left_window"] != nil
	can := func(i, j int) bool {
		if has("mask_transposed") && n == m {
			i, j = j, i
		}
		return allows(i, j, n, m, parameters, mask) != (has("mask_inverted") && isMasked)
	}
	scores := make([][]float64, n)
	for i := range scores {
		for j := 0; j < m; j++ {
			score := 0.0
			for k := 0; k < d; k++ {
				at := j*d + k
				if has("keys_reshaped") {
					at = k*m + j
				}
				score += scale * queries.Values[i*d+k] * keys.Values[at]
			}
			if cap := number(parameters, "softcap", 0); cap != 0 {
				score = cap * math.Tanh(score/cap)
			}
			if bias != nil {
				score += bias[i*m+j]
			}
			switch {
			case has("mask_added"):
				score += one(isMasked && can(i, j))
			case can(i, j) || has("mask_missing") || has("mask_after_softmax"):
			case has("mask_zero"):
				score = 0
			case has("mask_finite"):
				score = -100
			default:
				score = math.Inf(-1)
			}
			scores[i] = append(scores[i], score)
		}
	}
	sink := inputs["sinks"].Values
	if has("sink_missing") {
		sink = nil
	}
	weights := make([][]float64, n)
	for i, row := range scores {
		weights[i] = softmax(row, sink)
	}
	switch mistake {
	case "softmax_axis":
		weights = transpose(scores)
		for j, column := range weights {
			weights[j] = softmax(column, nil)
		}
		weights = transpose(weights)
	case "softmax_all":
		all := []float64{}
		for _, row := range scores {
			all = append(all, row...)
		}
		all = softmax(all, nil)
		weights = each(scores, func(i, j int, _ float64) float64 { return all[i*m+j] })
	case "softmax_missing":
		weights = scores
	case "softmax_unnormalized":
		weights = each(scores, func(_, _ int, x float64) float64 { return math.Exp(x) })
	case "softmax_sigmoid":
		weights = each(scores, func(_, _ int, x float64) float64 { return 1 / (1 + math.Exp(-x)) })
	case "softmax_over_one":
		weights = each(scores, func(_, _ int, _ float64) float64 { return 1 })
	case "softmax_twice":
		for i, row := range weights {
			weights[i] = softmax(row, nil)
		}
	case "softmax_log":
		weights = each(weights, func(_, _ int, x float64) float64 { return math.Log(x) })
	case "mask_after_softmax":
		weights = each(weights, func(i, j int, x float64) float64 { return x * one(can(i, j)) })
	case "weights_transposed":
		if n == m {
			weights = transpose(weights)
		}
	}
	output := vectors.Array{Shape: []float64{float64(n), float64(v)}}
	for _, row := range weights {
		for k := 0; k < v; k++ {
			sum := 0.0
			for j, weight := range row {
				sum += weight * values.Values[j*v+k]
			}
			if has("not_a_number") {
				sum = math.NaN()
			}
			output.Values = append(output.Values, sum)
		}
	}
	if has("more_axes") {
		output.Shape = append([]float64{1}, output.Shape...)
	}
	return map[string]vectors.Array{"output": output}
}

type cache struct {
	keys, values [][]float64
	calls        int
}

var last *cache // the state of the last call

func rowsOf(array vectors.Array) (rows [][]float64) {
	width := int(array.Shape[1])
	for i := 0; i < len(array.Values); i += width {
		rows = append(rows, array.Values[i:i+width])
	}
	return
}

func joined(a, b [][]float64) [][]float64 { return append(append([][]float64{}, a...), b...) }

func attentionCalls(function string, parameters vectors.Object, inputs, _ map[string]vectors.Array, state any) (map[string]vectors.Array, any) {
	if function != "attention_calls" {
		return nil, nil
	}
	before, _ := state.(*cache)
	if before == nil {
		before = &cache{}
		if has("last_request") && last != nil {
			before = &cache{last.keys, last.values, 0}
		}
	}
	queries, keys, values := rowsOf(inputs["queries"]), rowsOf(inputs["keys"]), rowsOf(inputs["values"])
	allKeys, allValues := joined(before.keys, keys), joined(before.values, values)
	n, m, isLater := len(queries), len(allKeys), before.calls > 0
	past, window := m-n, number(parameters, "left_window", math.Inf(1))
	left := window + one(isLater)*(one(has("window_one_long"))-one(has("window_one_short")))
	can := func(i, j int) bool {
		isEarly, isNear := j <= i+past, float64(j) >= float64(i+past)-left
		if has("mask_skipped_with_cache") || has("chunk_unmasked") && isLater {
			isEarly = true
		}
		if has("mask_at_first_key") || has("chunk_masked_top_left") && n > 1 {
			isEarly = isEarly && j <= i
		}
		if has("cache_ignored") || has("chunk_sees_itself_alone") && n > 1 {
			isEarly = isEarly && j >= past
		}
		if has("ring_written_first") && j < past {
			isNear = isNear && float64(j) > float64(m)-window-2
		}
		return isEarly && (isNear || float64(j) < number(parameters, "kept", 0))
	}
	output := vectors.Array{Shape: []float64{float64(n), inputs["values"].Shape[1]}}
	for i, query := range queries {
		scores := make([]float64, m)
		for j, key := range allKeys {
			for k := range key {
				scores[j] += query[k] * key[k] / math.Sqrt(float64(len(key)))
			}
			if !can(i, j) {
				scores[j] = math.Inf(-1)
			}
		}
		weights := softmax(scores, nil)
		for k := range values[0] {
			sum := 0.0
			for j, weight := range weights {
				sum += weight * allValues[j][k]
			}
			output.Values = append(output.Values, sum)
		}
	}
	if has("cache_overwritten") {
		allKeys, allValues = keys, values
	}
	if has("token_stored_twice") && !isLater {
		allKeys, allValues = joined(allKeys, keys[n-1:]), joined(allValues, values[n-1:])
	}
	last = &cache{allKeys, allValues, before.calls + 1}
	return map[string]vectors.Array{"output": output}, last
}

type column struct {
	isToken    bool
	key, value []float64
}

func plus(a, b []float64) []float64 {
	sum := make([]float64, len(a))
	for k := range a {
		sum[k] = a[k] + b[k]
	}
	return sum
}

func paddedAttentionCalls(function string, _ vectors.Object, inputs, _ map[string]vectors.Array, state any) (map[string]vectors.Array, any) {
	if function != "padded_attention_calls" {
		return nil, nil
	}
	row := func(name string, i int) []float64 {
		width := int(inputs[name].Shape[len(inputs[name].Shape)-1])
		return inputs[name].Values[i*width : (i+1)*width]
	}
	shape := inputs["value"].Shape
	b, n, v := int(shape[0]), int(shape[1]), int(shape[2])
	before, isLater := state.([][]column)
	if !isLater {
		before = make([][]column, b)
	}
	after, output := [][]column{}, vectors.Array{Shape: shape}
	for r := 0; r < b; r++ {
		after = append(after, append([]column{}, before[r]...))
		past := len(before[r])
		for i := 0; i < n; i++ {
			at := r*n + i
			isToken := inputs["attention_mask"].Values[at] != 0
			after[r] = append(after[r], column{isToken: isToken})
			counted, first := after[r], after[0]
			if has("positions_of_first_row") {
				counted = first
			}
			place := -1
			for _, one := range counted[:past+i+1] {
				if one.isToken {
					place++
				}
			}
			if has("padding_counted") || has("steps_at_padded_length") && isLater {
				place = past + i
			}
			if place < 0 {
				place = 0
			}
			position := row("position_table", place)
			after[r][past+i].key, after[r][past+i].value = plus(row("key", at), position), row("value", at)
			query, scores := plus(row("query", at), position), make([]float64, past+i+1)
			for j, one := range after[r] {
				can := one.isToken
				if has("mask_of_first_row") {
					can = first[j].isToken
				}
				if !isToken || !can && !has("padding_not_masked") && !(has("padding_seen_later") && j < past) {
					scores[j] = math.Inf(-1)
					continue
				}
				for k := range query {
					scores[j] += query[k] * one.key[k] / math.Sqrt(float64(len(query)))
				}
			}
			weights := softmax(scores, nil)
			for k := 0; k < v; k++ {
				sum := 0.0
				for j, weight := range weights {
					sum += weight * after[r][j].value[k]
				}
				output.Values = append(output.Values, sum)
			}
		}
	}
	return map[string]vectors.Array{"output": output}, after
}

func main() {
	isRight := false
	switch os.Getenv("CALLS") {
	case "attention_calls":
		isRight = vectors.CheckCalls(os.Args[1], "float64", attentionCalls)
	case "padded_attention_calls":
		isRight = vectors.CheckCalls(os.Args[1], "float64", paddedAttentionCalls)
	default:
		isRight = vectors.Check(os.Args[1], "float64", attention)
	}
	if !isRight {
		os.Exit(1)
	}
}
