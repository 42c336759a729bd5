module attn.example/vectors

go 1.19
