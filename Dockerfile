# Everything that the scripts need, on Debian 12:
#   docker build -t attn .
#   docker run --rm -it -v "$PWD:/attn" attn script/lessons
# PyTorch, which only the goldens need, and a browser come with: docker build --build-arg ALSO="golden browser" -t attn .
FROM debian:bookworm
ARG ALSO=""
WORKDIR /attn
COPY script script
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates git
RUN script/bootstrap build test docs exercise format $ALSO && rm -rf /var/lib/apt/lists/*
CMD ["bash"]
