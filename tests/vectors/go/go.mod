module attn.example/mine

go 1.19

require attn.example/vectors v1.0.0

replace attn.example/vectors => ../../../vectors/runners/go
