module attn.example/kernel

go 1.19

require attn.example/vectors v0.0.0

replace attn.example/vectors => ../../go
