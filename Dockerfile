# smelt as an image: built with cgo, for DuckDB, and run as a user of its own.

FROM golang:1.26-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=1 go build -trimpath -ldflags="-s -w" -o /smelt ./cmd/smelt

# It listens for all of its network, so it starts only with a SMELT_HTTP_TOKEN, which
# metrics and details of health ask for; /livez and /readyz do not.
FROM debian:bookworm-slim
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates curl libstdc++6 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --home-dir /var/lib/smelt --create-home --shell /usr/sbin/nologin smelt
COPY --from=build /smelt /usr/local/bin/smelt
USER smelt
WORKDIR /var/lib/smelt
VOLUME /var/lib/smelt
ENV SMELT_HOME=/var/lib/smelt \
    SMELT_HTTP=0.0.0.0:8088
EXPOSE 8088
HEALTHCHECK --interval=5s --timeout=10s --start-period=20s --retries=12 \
    CMD ["curl", "-fsS", "-o", "/dev/null", "http://127.0.0.1:8088/readyz"]
ENTRYPOINT ["smelt"]
CMD ["run"]
