// A kernel in tiles, checked: go run . ../../../kernels
package main

import (
	"math"
	"os"

	"attn.example/vectors"
)

const tile = 64

func kernel(function string, parameters vectors.Object, inputs, _ map[string]vectors.Array) map[string]vectors.Array {
	if function != "attention_kernel" || parameters["layout"] != "bhnd" || len(inputs) != 3 || len(parameters) > 2 || len(parameters) == 2 && parameters["causal"] == nil {
		return nil // it does not compute such a case
	}
	q, k, v := inputs["queries"], inputs["keys"], inputs["values"] // (b, h, n, d), (b, g, m, d), (b, g, m, e)
	h, n, d, g, m, e := int(q.Shape[1]), int(q.Shape[2]), int(q.Shape[3]), int(k.Shape[1]), int(k.Shape[2]), int(v.Shape[3])
	output := vectors.Array{Shape: []float64{q.Shape[0], q.Shape[1], q.Shape[2], v.Shape[3]}}
	for row := 0; row < int(q.Shape[0])*h*n; row++ {
		head, end, top, total, sums := row/n/h*g+row/n%h/(h/g), m, -1e30, 0.0, make([]float64, e)
		if parameters["causal"] != nil {
			end = row%n + m - n + 1
		}
		for begin := 0; begin < end; begin += tile {
			scores, next := make([]float64, int(math.Min(tile, float64(end-begin)))), top
			for j := range scores {
				for c := 0; c < d; c++ {
					scores[j] += q.Values[row*d+c] * k.Values[(head*m+begin+j)*d+c] / math.Sqrt(float64(d))
				}
				next = math.Max(next, scores[j])
			}
			factor := math.Exp(top - next)
			total, top = total*factor, next
			for c := range sums {
				sums[c] *= factor
			}
			for j, score := range scores {
				total += math.Exp(score - top)
				for c := range sums {
					sums[c] += math.Exp(score-top) * v.Values[(head*m+begin+j)*e+c]
				}
			}
		}
		for c := range sums {
			sums[c] /= math.Max(total, 1e-300)
		}
		output.Values = append(output.Values, sums...)
	}
	return map[string]vectors.Array{"output": output}
}

func main() {
	if !vectors.Check(os.Args[1], "float32", kernel) {
		os.Exit(1)
	}
}
